-- id: gpu_talp_parallel_efficiency
-- name: GPU parallel efficiency as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P11
-- sentence: Mean time that any kernel runs, those of collectives included, over the time of the steady steps.
SELECT avg(active_ns - exposed_copy_ns) / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
