-- id: exposed_wait
-- name: Waiting for other ranks
-- unit: ns
-- better: lower
-- scope: step
-- bound: lower
-- needs: communication
-- source: specification.md C5
-- sentence: Part of the exposed communication of a step in which a rank waited for another one, in a collective or for a message, mean over the ranks.
SELECT step, wait_ns * 1.0 / ranks AS value, why, sigma_ns / ranks AS sigma FROM steady_step WHERE world = :world ORDER BY step
