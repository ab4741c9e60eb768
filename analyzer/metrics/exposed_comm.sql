-- id: exposed_comm
-- name: Exposed communication, slowest rank
-- unit: ns
-- better: lower
-- scope: step
-- needs: communication
-- source: specification.md C4
-- sentence: Time inside MPI calls in a step, of the rank that has most of it.
SELECT step, longest_exposed_ns AS value, NULL AS why FROM steady_step WHERE world = :world ORDER BY step
