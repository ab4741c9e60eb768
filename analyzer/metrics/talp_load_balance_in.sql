-- id: talp_load_balance_in
-- name: Load balance within nodes as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Time outside MPI of the busiest node over that of the busiest rank. Nothing if one rank of several is known.
WITH node AS (SELECT avg(exposed_ns) AS mean FROM steady_rank WHERE world = :world GROUP BY host)
SELECT iif(min(w.alone), NULL, (max(duration_ns) - (SELECT min(mean) FROM node)) / nullif(max(duration_ns) - min(exposed_ns), 0)) AS value,
       CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN min(w.alone) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_rank r JOIN (SELECT world, ranks = 1 AND world_size > 1 AS alone FROM steady_world) w ON w.world = r.world WHERE r.world = :world
