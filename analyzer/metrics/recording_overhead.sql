-- id: recording_overhead
-- name: Recording overhead
-- unit: ratio
-- better: lower
-- scope: job
-- source: docs/performance.md, "What a run says of itself"
-- sentence: Share of the ranks' time that recording took, as the processes themselves estimated it.
SELECT sum(overhead_ns) * 1.0 / nullif(sum(CASE WHEN overhead_ns IS NOT NULL THEN end_ns - start_ns END), 0) AS value, 'NO_DATA' AS why
FROM process WHERE world = :world AND rank IS NOT NULL
