-- id: talp_mpi_load_balance
-- name: MPI load balance as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Mean over maximum of the time outside MPI: between nodes (talp_load_balance_out) times within them (talp_load_balance_in). Not available if one rank of several is known.
SELECT iif(min(w.alone), NULL, (max(duration_ns) - avg(exposed_ns)) / nullif(max(duration_ns) - min(exposed_ns), 0)) AS value,
       CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN min(w.alone) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_rank r JOIN (SELECT world, ranks = 1 AND world_size > 1 AS alone FROM steady_world) w ON w.world = r.world WHERE r.world = :world
