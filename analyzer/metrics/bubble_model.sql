-- id: bubble_model
-- name: Pipeline bubble of the schedule
-- unit: ratio
-- better: lower
-- scope: job
-- source: metrics.md B1, B3
-- sentence: What GPipe, 1F1B and interleaved 1F1B leave idle with equal stages and free transfers, as a fraction of the total time: (p - 1) / (v m + p - 1) with p stages, m micro-batches, v chunks on each device.
SELECT sum((stages - 1) * 1.0 / (chunks * micro_batches + stages - 1)) / nullif(count(*), 0) AS value, 'NOT_APPLICABLE' AS why
FROM pipeline l JOIN process p ON p.id = l.process WHERE p.world = :world
