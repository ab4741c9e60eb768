-- id: ipc
-- name: Instructions per cycle
-- unit: 1
-- better: higher
-- scope: job
-- source: specification.md P7 (IPC)
-- sentence: Instructions over cycles of the steps, all ranks together: needs ddl record --counters PAPI_TOT_INS,PAPI_TOT_CYC. Polling inside MPI counts.
SELECT iif(count(DISTINCT iif(instructions + cycles IS NOT NULL, rank, NULL)) = max(world_size), total(instructions) / nullif(total(cycles), 0), NULL) AS value,
       CASE WHEN count(instructions + cycles) = 0 THEN 'NO_DATA' WHEN count(DISTINCT iif(instructions + cycles IS NOT NULL, rank, NULL)) < max(world_size) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM counted WHERE world = :world
