-- id: gpu_idle_launch
-- name: GPU idle for launches
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I3
-- sentence: Share of the steady steps in which GPUs did nothing for as long as a launch takes.
SELECT sum(idle_launch_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
