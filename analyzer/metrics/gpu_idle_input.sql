-- id: gpu_idle_input
-- name: GPU idle for input
-- unit: ratio
-- better: lower
-- scope: job
-- source: metrics.md I1
-- sentence: Share of the steady steps in which GPUs did nothing while the host loaded data.
SELECT sum(idle_input_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
