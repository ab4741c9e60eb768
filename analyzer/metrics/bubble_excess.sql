-- id: bubble_excess
-- name: Pipeline bubble beyond the schedule
-- unit: ratio
-- better: lower
-- scope: step
-- bound: lower
-- source: specification.md B5 - B1
-- sentence: The measured bubble less that of the schedule, both of the total time: the cost of uneven stages and of transfers. Its clock sigma is that of all waiting of these ranks, of which the bubble is a part.
SELECT s.step, s.bubble_ns * 1.0 / nullif(s.staged_ns, 0) - m.of_total AS value, CASE WHEN s.staged = 0 THEN 'NOT_APPLICABLE' WHEN s.staged_ns = 0 THEN 'ZERO_DENOM' ELSE s.why END AS why, s.staged_sigma_ns / nullif(s.staged_ns, 0) AS sigma
FROM steady_step s LEFT JOIN pipeline_model m ON m.world = s.world WHERE s.world = :world ORDER BY s.step
