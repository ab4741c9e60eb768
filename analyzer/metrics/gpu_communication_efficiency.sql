-- id: gpu_communication_efficiency
-- name: GPU communication efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12
-- sentence: The longest compute time of a GPU over the longest time that one has anything to do; transfer times wait efficiency.
SELECT max(compute_ns) * 1.0 / nullif(max(active_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
