-- id: recording_overhead
-- name: Recording overhead
-- unit: ratio
-- better: lower
-- scope: job
-- source: docs/performance.md, "What a run says of itself"
-- sentence: Share of the ranks' time that recording took, as the processes themselves estimated it; without those whose estimate is damaged.
SELECT sum(overhead_ns) * 1.0 / nullif(sum(end_ns - start_ns), 0) AS value, 'NO_DATA' AS why
FROM process p WHERE world = :world AND rank IS NOT NULL AND overhead_ns IS NOT NULL
  AND overhead_ns <= (end_ns - start_ns) * 1.0 * max(1, (SELECT count(*) FROM thread t WHERE t.process = p.id))
  AND rank NOT IN (SELECT rank FROM loss WHERE world = :world AND kind = 'damaged_header' AND rank IS NOT NULL)
