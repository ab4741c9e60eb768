-- id: gpu_parallel_efficiency
-- name: GPU parallel efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12, J4
-- sentence: Mean time that the GPUs compute over the time that the steady steps take the job, from the first begin to the last end over the ranks; load balance times transfer, wait and orchestration efficiency.
SELECT avg(g.compute_ns) / nullif(max(w.duration_ns), 0) AS value,
       iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(w.why), 'ZERO_DENOM')) AS why,
       avg(g.compute_ns) * max(w.sigma_ns) / nullif(1.0 * max(w.duration_ns) * max(w.duration_ns), 0) AS sigma
FROM steady_gpu g JOIN job_window w ON w.world = g.world
WHERE g.world = :world
