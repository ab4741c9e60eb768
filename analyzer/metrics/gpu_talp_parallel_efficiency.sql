-- id: gpu_talp_parallel_efficiency
-- name: GPU parallel efficiency as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P11, J4
-- sentence: Mean time that any kernel runs, those of collectives included, over the time that the steady steps take the job, from the first begin to the last end over the ranks.
SELECT avg(g.active_ns - g.exposed_copy_ns) / nullif(max(w.duration_ns), 0) AS value,
       iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(w.why), 'ZERO_DENOM')) AS why,
       avg(g.active_ns - g.exposed_copy_ns) * max(w.sigma_ns) / nullif(1.0 * max(w.duration_ns) * max(w.duration_ns), 0) AS sigma
FROM steady_gpu g JOIN job_window w ON w.world = g.world
WHERE g.world = :world
