-- id: gpu_load_balance
-- name: GPU load balance
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12
-- sentence: Mean over maximum of the GPUs' compute time. Nothing if one rank of several is known.
SELECT iif(min(w.alone), NULL, avg(compute_ns) / nullif(max(compute_ns), 0)) AS value,
       CASE WHEN count(*) = 0 THEN 'NOT_APPLICABLE' WHEN min(w.alone) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_gpu r JOIN (SELECT world, ranks = 1 AND world_size > 1 AS alone FROM steady_world) w ON w.world = r.world WHERE r.world = :world
