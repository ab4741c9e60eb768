-- id: talp_mpi_communication_efficiency
-- name: MPI communication efficiency as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Elapsed time less the time in MPI of the rank that has least of it, over the elapsed time.
SELECT (max(duration_ns) - min(exposed_ns)) * 1.0 / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
