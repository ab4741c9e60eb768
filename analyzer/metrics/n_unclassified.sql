-- id: n_unclassified
-- name: Kernels that no rule knows
-- unit: names
-- better: lower
-- scope: job
-- source: specification.md J5
-- sentence: Different names of kernels that no rule tells to be computing or communication. They count as computing; gpu_unclassified says how much of the time that is.
SELECT iif(count(*) > 0, total(iif(class = 'unclassified', names, 0)), NULL) AS value, 'NOT_APPLICABLE' AS why
FROM kernel_time WHERE world = :world
