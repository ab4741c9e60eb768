-- id: gpu_talp_load_balance
-- name: GPU load balance as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P11
-- sentence: Mean over maximum of the time that any kernel runs, those of collectives included.
SELECT avg(active_ns - exposed_copy_ns) / nullif(max(active_ns - exposed_copy_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
