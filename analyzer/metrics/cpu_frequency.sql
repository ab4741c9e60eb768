-- id: cpu_frequency
-- name: Processor frequency
-- unit: Hz
-- better: higher
-- scope: job
-- source: specification.md P7 (frequency)
-- sentence: Cycles over the time of the steps, all ranks together: needs ddl record --counters PAPI_TOT_CYC on all ranks. Time in which a thread did not run counts.
SELECT iif(count(DISTINCT iif(cycles + time_ns IS NOT NULL, rank, NULL)) = max(world_size), total(cycles) * 1e9 / nullif(total(time_ns), 0), NULL) AS value,
       CASE WHEN count(cycles + time_ns) = 0 THEN 'NO_DATA' WHEN count(DISTINCT iif(cycles + time_ns IS NOT NULL, rank, NULL)) < max(world_size) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM counted WHERE world = :world
