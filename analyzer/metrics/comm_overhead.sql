-- id: comm_overhead
-- name: Communication overhead
-- unit: ratio
-- better: lower
-- scope: step
-- needs: communication
-- source: specification.md C8
-- sentence: Share of the step spent inside MPI calls, over all ranks.
SELECT step, exposed_ns * 1.0 / nullif(duration_ns, 0) AS value, 'ZERO_DENOM' AS why
FROM steady_step WHERE world = :world ORDER BY step
