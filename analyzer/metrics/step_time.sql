-- id: step_time
-- name: Step time
-- unit: ns
-- better: lower
-- scope: step
-- source: specification.md "Conventions" (T, the slowest rank of each step)
-- sentence: Time of one training step: the longest over the ranks, then the median over the steady steps.
SELECT step, longest_ns AS value, NULL AS why FROM timed_step WHERE world = :world
UNION ALL
SELECT step, longest_ns, NULL FROM steady_step
WHERE world = :world AND annotated AND NOT EXISTS (SELECT 1 FROM timed_step WHERE world = :world)
ORDER BY step
