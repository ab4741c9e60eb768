-- id: gpu_idle_dep_comm
-- name: GPU idle for a collective elsewhere
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I5
-- sentence: Share of the steady steps in which GPUs were idle because launched work waited, by an event, for a collective that still ran on another GPU.
SELECT sum(idle_dep_comm_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
