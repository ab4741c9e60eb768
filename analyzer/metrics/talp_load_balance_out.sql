-- id: talp_load_balance_out
-- name: Load balance between nodes as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Mean time outside MPI over that of the busiest node. Nothing if one rank of several is known.
WITH node AS (SELECT avg(exposed_ns) AS mean FROM steady_rank WHERE world = :world GROUP BY host)
SELECT iif(min(w.alone), NULL, (max(duration_ns) - avg(exposed_ns)) / nullif(max(duration_ns) - (SELECT min(mean) FROM node), 0)) AS value,
       CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN min(w.alone) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_rank r JOIN (SELECT world, ranks = 1 AND world_size > 1 AS alone FROM steady_world) w ON w.world = r.world WHERE r.world = :world
