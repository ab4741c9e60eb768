-- id: bubble_model_ideal
-- name: Pipeline bubble of the schedule, of the ideal time
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md B2, B3
-- sentence: The same relative to the time without a bubble, as Megatron counts it: (p - 1) / (v m). bubble_model = this / (1 + this).
SELECT max(of_ideal) AS value, 'NOT_APPLICABLE' AS why FROM pipeline_model WHERE world = :world
