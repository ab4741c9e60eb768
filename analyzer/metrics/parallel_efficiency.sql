-- id: parallel_efficiency
-- name: Parallel efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- needs: computing
-- source: specification.md P3
-- sentence: Mean compute time of the ranks in the steady steps over their duration; load balance times communication efficiency.
SELECT avg(compute_ns) / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
