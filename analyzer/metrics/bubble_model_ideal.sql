-- id: bubble_model_ideal
-- name: Pipeline bubble of the schedule, of the ideal time
-- unit: ratio
-- better: lower
-- scope: job
-- source: metrics.md B2, B3
-- sentence: The same relative to the time without a bubble, as Megatron counts it: (p - 1) / (v m). bubble_model = this / (1 + this).
SELECT sum((stages - 1) * 1.0 / (chunks * micro_batches)) / nullif(count(*), 0) AS value, 'NOT_APPLICABLE' AS why
FROM pipeline l JOIN process p ON p.id = l.process WHERE p.world = :world
