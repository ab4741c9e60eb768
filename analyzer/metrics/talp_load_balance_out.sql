-- id: talp_load_balance_out
-- name: Load balance between nodes as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P9
-- sentence: Mean time outside MPI over that of the busiest node.
WITH r AS (
  SELECT p.host AS host, sum(s.compute_ns) AS u, sum(s.exposed_ns) AS mpi, sum(s.duration_ns) AS t FROM steady_part s JOIN process p ON p.world = s.world AND p.rank = s.rank
  WHERE s.world = :world GROUP BY s.rank
), a AS (
  SELECT max(t) * 1.0 AS t, avg(mpi) AS app, min(mpi) * 1.0 AS least, sum(u) * 1.0 AS u, sum(mpi) AS mpi, count(*) AS n,
         (SELECT min(mpi) FROM (SELECT avg(mpi) AS mpi FROM r GROUP BY host)) AS node FROM r
)
SELECT (t - app) / nullif(t - node, 0) AS value, iif(n = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM a
