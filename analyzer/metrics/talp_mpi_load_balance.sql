-- id: talp_mpi_load_balance
-- name: MPI load balance as TALP counts
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P9
-- sentence: Mean over maximum of what is not spent in MPI: between nodes (talp_load_balance_out) times within them (talp_load_balance_in).
SELECT (max(duration_ns) - avg(exposed_ns)) / nullif(max(duration_ns) - min(exposed_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM steady_rank WHERE world = :world
