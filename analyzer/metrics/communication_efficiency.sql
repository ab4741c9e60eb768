-- id: communication_efficiency
-- name: Communication efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P2
-- sentence: Largest compute time of a rank in the steady steps over their duration on the rank they took longest; needs no common clock.
WITH useful AS (SELECT rank, sum(compute_ns) AS u, sum(duration_ns) AS t FROM steady_part WHERE world = :world GROUP BY rank)
SELECT max(u) * 1.0 / nullif(max(t), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM useful
