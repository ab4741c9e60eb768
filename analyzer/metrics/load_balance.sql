-- id: load_balance
-- name: Load balance
-- unit: ratio
-- better: higher
-- scope: job
-- needs: computing
-- source: specification.md P1
-- sentence: Mean over maximum of the ranks' compute time in the steady steps (in the whole run, if there are no steps).
SELECT avg(compute_ns) / nullif(max(compute_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
