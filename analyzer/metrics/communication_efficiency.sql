-- id: communication_efficiency
-- name: Communication efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- needs: computing
-- source: specification.md P2
-- sentence: Largest compute time of a rank in the steady steps over their duration on the rank they took longest; needs no common clock.
SELECT max(compute_ns) * 1.0 / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
