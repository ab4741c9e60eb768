-- id: f_bub
-- name: Pipeline bubble, share of the step
-- unit: ratio
-- better: lower
-- scope: step
-- bound: lower
-- source: specification.md V, B5
-- sentence: Share of the step in which ranks waited for another stage of their pipeline, over all ranks. It is part of the waiting. Its clock sigma is that of all waiting of these ranks, of which the bubble is a part.
SELECT step, bubble_ns * 1.0 / nullif(duration_ns, 0) AS value, CASE WHEN staged = 0 THEN 'NOT_APPLICABLE' WHEN duration_ns = 0 THEN 'ZERO_DENOM' ELSE why END AS why, staged_sigma_ns / nullif(duration_ns, 0) AS sigma
FROM steady_step WHERE world = :world ORDER BY step
