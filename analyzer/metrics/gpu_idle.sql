-- id: gpu_idle
-- name: GPU idle
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md T4
-- sentence: Share of the steady steps in which GPUs did nothing, the edges of steps included.
SELECT sum(idle_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
