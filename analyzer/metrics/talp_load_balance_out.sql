-- id: talp_load_balance_out
-- name: Load balance between nodes as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Mean time outside MPI over that of the busiest node.
WITH node AS (SELECT avg(exposed_ns) AS mean FROM steady_rank WHERE world = :world GROUP BY host)
SELECT (max(duration_ns) - avg(exposed_ns)) / nullif(max(duration_ns) - (SELECT min(mean) FROM node), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
