-- id: gpu_parallel_efficiency
-- name: GPU parallel efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P12
-- sentence: Mean time that the GPUs compute over the time of the steady steps; load balance times transfer, wait and orchestration efficiency.
SELECT avg(compute_ns) / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
