-- id: talp_mpi_parallel_efficiency
-- name: MPI parallel efficiency as TALP 1 counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Useful time over useful time plus time in MPI, over all ranks: of the processors' active time, not of the elapsed one as parallel_efficiency and TALP 2 are.
SELECT sum(compute_ns) * 1.0 / nullif(sum(compute_ns) + sum(exposed_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
