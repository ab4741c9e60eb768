-- id: ccr_exposed
-- name: Compute / exposed communication
-- unit: ratio
-- better: higher
-- scope: step
-- needs: computing
-- source: specification.md C3
-- sentence: Compute time over the time inside MPI calls, waiting included; undefined when all communication is hidden.
SELECT step, compute_ns * 1.0 / nullif(exposed_ns, 0) AS value, 'ZERO_DENOM' AS why
FROM steady_step WHERE world = :world ORDER BY step
