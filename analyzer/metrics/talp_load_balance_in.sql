-- id: talp_load_balance_in
-- name: Load balance within nodes as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Time outside MPI of the busiest node over that of the busiest rank.
WITH node AS (SELECT avg(exposed_ns) AS mean FROM steady_rank WHERE world = :world GROUP BY host)
SELECT (max(duration_ns) - (SELECT min(mean) FROM node)) / nullif(max(duration_ns) - min(exposed_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
