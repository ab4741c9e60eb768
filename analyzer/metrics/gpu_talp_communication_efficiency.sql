-- id: gpu_talp_communication_efficiency
-- name: GPU communication efficiency as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P11
-- sentence: The longest time that any kernel runs on a GPU over the longest time that one has anything to do: copies are communication, collectives are not.
SELECT max(active_ns - exposed_copy_ns) * 1.0 / nullif(max(active_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
