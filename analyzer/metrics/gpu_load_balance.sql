-- id: gpu_load_balance
-- name: GPU load balance
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12
-- sentence: Mean over maximum of the GPUs' compute time.
SELECT avg(compute_ns) / nullif(max(compute_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
