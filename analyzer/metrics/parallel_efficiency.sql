-- id: parallel_efficiency
-- name: Parallel efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P3
-- sentence: Mean compute time of the ranks in the steady steps over their duration; load balance times communication efficiency.
WITH useful AS (SELECT rank, sum(compute_ns) AS u, sum(duration_ns) AS t FROM steady_part WHERE world = :world GROUP BY rank)
SELECT avg(u) / nullif(max(t), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM useful
