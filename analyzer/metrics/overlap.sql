-- id: overlap
-- name: Overlap
-- unit: ratio
-- better: higher
-- scope: step
-- needs: computing
-- source: specification.md C6 (MPI: OVF_mpi, an upper bound)
-- sentence: Share of the communication time during which the rank computed. An upper bound: a non-blocking operation counts as communicating from its post to the call that completed it.
SELECT step, (comm_ns - exposed_ns) * 1.0 / nullif(comm_ns, 0) AS value, iif(comm_ns = 0, 'ZERO_DENOM', 'NO_DATA') AS why
FROM steady_step WHERE world = :world ORDER BY step
