-- id: gpu_orchestration_efficiency
-- name: GPU orchestration efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12, P11, J4
-- sentence: The longest time that a GPU has anything to do over the time that the steady steps take the job, from the first begin to the last end over the ranks: the rest is idling.
SELECT max(g.active_ns) * 1.0 / nullif(max(w.duration_ns), 0) AS value,
       iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(w.why), 'ZERO_DENOM')) AS why,
       max(g.active_ns) * max(w.sigma_ns) / nullif(1.0 * max(w.duration_ns) * max(w.duration_ns), 0) AS sigma
FROM steady_gpu g JOIN job_window w ON w.world = g.world
WHERE g.world = :world
