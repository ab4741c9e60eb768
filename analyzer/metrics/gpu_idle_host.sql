-- id: gpu_idle_host
-- name: GPU idle for the host
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I2
-- sentence: Share of the steady steps in which GPUs were idle because the host had not launched the next operation yet.
SELECT sum(idle_host_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
