-- id: bubble_model
-- name: Pipeline bubble of the schedule
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md B1, B3
-- sentence: Idle time of GPipe, 1F1B and interleaved 1F1B with equal stages and free transfers, as a fraction of the total time: (p - 1) / (v m + p - 1) with p stages, m micro-batches, v chunks on each device.
SELECT max(of_total) AS value, 'NOT_APPLICABLE' AS why FROM pipeline_model WHERE world = :world
