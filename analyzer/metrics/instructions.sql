-- id: instructions
-- name: Instructions of a step
-- unit: instructions
-- better: lower
-- scope: job
-- source: specification.md P7 (instructions)
-- sentence: Instructions of a step, mean over the steps, all ranks together: needs ddl record --counters PAPI_TOT_INS on all ranks. Between two runs of the same work (ddl diff) its ratio is the instruction scaling of POP, as those of ipc and cpu_frequency are its other factors; polling inside MPI counts.
SELECT iif(count(DISTINCT iif(instructions IS NOT NULL, rank, NULL)) = max(world_size), total(instructions / nullif(instruction_steps, 0)), NULL) AS value,
       CASE WHEN count(instructions) = 0 THEN 'NO_DATA' ELSE 'PARTIAL_RANKS' END AS why
FROM counted WHERE world = :world
