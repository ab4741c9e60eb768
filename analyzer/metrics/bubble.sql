-- id: bubble
-- name: Pipeline bubble
-- unit: ratio
-- better: lower
-- scope: step
-- bound: lower
-- source: specification.md B5
-- sentence: Share of the step in which the stages of pipelines waited for messages of another stage of the same pipeline, or in collectives that only such stages take part in. Compare with bubble_model: both are fractions of the total time. Its clock sigma is that of all waiting of these ranks, of which the bubble is a part.
SELECT step, bubble_ns * 1.0 / nullif(staged_ns, 0) AS value, CASE WHEN staged = 0 THEN 'NOT_APPLICABLE' WHEN staged_ns = 0 THEN 'ZERO_DENOM' ELSE why END AS why, staged_sigma_ns / nullif(staged_ns, 0) AS sigma
FROM steady_step WHERE world = :world ORDER BY step
