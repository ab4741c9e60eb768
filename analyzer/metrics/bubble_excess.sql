-- id: bubble_excess
-- name: Pipeline bubble beyond the schedule
-- unit: ratio
-- better: lower
-- scope: step
-- source: metrics.md B5 - B1
-- sentence: The measured bubble less that of the schedule, both of the total time: what uneven stages and transfers cost.
WITH model AS (
  SELECT sum((stages - 1) * 1.0 / (chunks * micro_batches + stages - 1)) / nullif(count(*), 0) AS ratio
  FROM pipeline l JOIN process p ON p.id = l.process WHERE p.world = :world
)
SELECT step, bubble_ns * 1.0 / nullif(staged_ns, 0) - model.ratio AS value, CASE WHEN staged = 0 THEN 'NOT_APPLICABLE' WHEN staged_ns = 0 THEN 'ZERO_DENOM' ELSE why END AS why, sigma_ns / nullif(staged_ns, 0) AS sigma
FROM steady_step JOIN model WHERE world = :world ORDER BY step
