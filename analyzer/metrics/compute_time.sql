-- id: compute_time
-- name: Compute
-- unit: ns
-- better: none
-- scope: step
-- needs: computing
-- source: specification.md T1
-- sentence: Time outside MPI in a step, mean over the ranks.
SELECT step, compute_ns * 1.0 / ranks AS value, NULL AS why FROM steady_step WHERE world = :world ORDER BY step
