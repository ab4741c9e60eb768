-- id: load_balance
-- name: Load balance
-- unit: ratio
-- better: higher
-- scope: job
-- needs: computing
-- source: specification.md P1
-- sentence: Mean over maximum of the ranks' compute time in the steady steps (in the whole run, if there are no steps). Nothing if one rank of several is known.
SELECT iif(min(w.alone), NULL, avg(compute_ns) / nullif(max(compute_ns), 0)) AS value,
       CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN min(w.alone) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_rank r JOIN (SELECT world, ranks = 1 AND world_size > 1 AS alone FROM steady_world) w ON w.world = r.world WHERE r.world = :world
