-- id: load_balance
-- name: Load balance
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P1
-- sentence: Mean over maximum of the ranks' compute time in the steady steps (in the whole run, if there are no steps).
WITH useful AS (SELECT rank, sum(compute_ns) AS u FROM steady_part WHERE world = :world GROUP BY rank)
SELECT avg(u) / nullif(max(u), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM useful
