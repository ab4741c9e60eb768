-- id: exposed_xfer
-- name: Exposed transfer
-- unit: ns
-- better: lower
-- scope: step
-- bound: upper
-- needs: communication
-- source: specification.md C5
-- sentence: Part of the exposed communication of a step that is not waiting for another rank, mean over the ranks; calls that only test (MPI_Test, MPI_Iprobe) count in full.
SELECT step, xfer_ns * 1.0 / ranks AS value, why, sigma_ns / ranks AS sigma FROM steady_step WHERE world = :world ORDER BY step
