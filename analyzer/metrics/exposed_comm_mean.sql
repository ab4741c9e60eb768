-- id: exposed_comm_mean
-- name: Exposed communication
-- unit: ns
-- better: lower
-- scope: step
-- needs: communication
-- source: specification.md C4, T6 (T_host_mpi)
-- sentence: Time inside MPI calls in a step, mean over the ranks; the sum of exposed waiting and exposed transfer.
SELECT step, exposed_ns * 1.0 / ranks AS value, NULL AS why FROM steady_step WHERE world = :world ORDER BY step
