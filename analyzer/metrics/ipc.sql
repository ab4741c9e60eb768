-- id: ipc
-- name: Instructions per cycle
-- unit: 1
-- better: higher
-- scope: job
-- source: metrics.md P7 (IPC)
-- sentence: Instructions over cycles of the steps, all ranks together: needs ddl record --counters PAPI_TOT_INS,PAPI_TOT_CYC. Ranks that poll inside MPI count what they poll.
WITH counted AS (
  SELECT total(iif(c.name = 'PAPI_TOT_INS', f.value, 0)) AS instructions, total(iif(c.name = 'PAPI_TOT_CYC', f.value, 0)) AS cycles,
         max(c.name = 'PAPI_TOT_INS') AS has_instructions, max(c.name = 'PAPI_TOT_CYC') AS has_cycles
  FROM counter_profile f JOIN counter c ON c.process = f.process AND c.number = f.counter AND c.source IS NOT NULL JOIN region r ON r.id = f.region AND r.kind = 'step'
  JOIN process p ON p.id = f.process WHERE p.world = :world
)
SELECT iif(has_instructions AND has_cycles, instructions / nullif(cycles, 0), NULL) AS value, iif(has_instructions AND has_cycles, 'ZERO_DENOM', 'NO_DATA') AS why FROM counted
