-- id: ccr_exposed
-- name: Compute / exposed communication
-- unit: ratio
-- better: higher
-- scope: step
-- needs: computing
-- source: specification.md C3
-- sentence: Compute time over the time inside MPI calls, waiting included; over all steps together where it is hidden in the median step.
SELECT step, iif(exposed_ns = 0 AND compute_ns > 0, 9e999, compute_ns * 1.0 / nullif(exposed_ns, 0)) AS value, 'ZERO_DENOM' AS why, compute_ns AS part, exposed_ns AS whole
FROM steady_step WHERE world = :world ORDER BY step
