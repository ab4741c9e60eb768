-- id: gpu_idle_dep_copy
-- name: GPU idle for a copy elsewhere
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I5
-- sentence: Share of the steady steps in which GPUs were idle because launched work waited, by an event, for a copy that still ran on another GPU.
SELECT sum(idle_dep_copy_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
