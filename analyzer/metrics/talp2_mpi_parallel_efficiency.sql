-- id: talp2_mpi_parallel_efficiency
-- name: MPI parallel efficiency as TALP 2 counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P10
-- sentence: Mean time outside MPI over the elapsed time; communication efficiency times load balance within and between nodes.
SELECT (max(duration_ns) - avg(exposed_ns)) / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
