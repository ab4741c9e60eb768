-- id: cpu_frequency
-- name: Processor frequency
-- unit: Hz
-- better: higher
-- scope: job
-- source: metrics.md P7 (frequency)
-- sentence: Cycles over the time of the steps, all ranks together: needs ddl record --counters PAPI_TOT_CYC. Time in which a thread did not run counts.
WITH counted AS (
  SELECT total(iif(c.name = 'PAPI_TOT_INS', f.value, 0)) AS instructions, total(iif(c.name = 'PAPI_TOT_CYC', f.value, 0)) AS cycles,
         max(c.name = 'PAPI_TOT_INS') AS has_instructions, max(c.name = 'PAPI_TOT_CYC') AS has_cycles
  FROM counter_profile f JOIN counter c ON c.process = f.process AND c.number = f.counter AND c.source IS NOT NULL JOIN region r ON r.id = f.region AND r.kind = 'step'
  JOIN process p ON p.id = f.process WHERE p.world = :world
)
, timed AS (SELECT sum(f.time_ns) AS time_ns FROM range_profile f JOIN region r ON r.id = f.region AND r.kind = 'step' JOIN process p ON p.id = f.process WHERE p.world = :world)
SELECT iif(has_cycles, cycles * 1e9 / nullif(time_ns, 0), NULL) AS value, iif(has_cycles, 'ZERO_DENOM', 'NO_DATA') AS why FROM counted JOIN timed
