-- id: talp_mpi_communication_efficiency
-- name: MPI communication efficiency as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P9
-- sentence: Elapsed time less the time in MPI of the rank that has least of it, over the elapsed time.
WITH r AS (
  SELECT p.host AS host, sum(s.compute_ns) AS u, sum(s.exposed_ns) AS mpi, sum(s.duration_ns) AS t FROM steady_part s JOIN process p ON p.world = s.world AND p.rank = s.rank
  WHERE s.world = :world GROUP BY s.rank
), a AS (
  SELECT max(t) * 1.0 AS t, avg(mpi) AS app, min(mpi) * 1.0 AS least, sum(u) * 1.0 AS u, sum(mpi) AS mpi, count(*) AS n,
         (SELECT min(mpi) FROM (SELECT avg(mpi) AS mpi FROM r GROUP BY host)) AS node FROM r
)
SELECT (t - least) / nullif(t, 0) AS value, iif(n = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM a
