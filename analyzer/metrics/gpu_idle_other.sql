-- id: gpu_idle_other
-- name: GPU idle for other reasons
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I6
-- sentence: Share of the steady steps in which GPUs did nothing and neither launches nor events between streams explain it, or no launch was recorded.
SELECT sum(idle_other_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
