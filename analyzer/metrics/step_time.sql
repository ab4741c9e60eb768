-- id: step_time
-- name: Step time
-- unit: ns
-- better: lower
-- scope: step
-- source: specification.md "Conventions" (T, the slowest rank of each step)
-- sentence: Time of one training step: the longest over the ranks, then the median over the steady steps.
SELECT step, longest_ns AS value, NULL AS why FROM steady_step WHERE world = :world AND annotated ORDER BY step
