-- id: gpu_unclassified
-- name: GPU time in kernels that no rule knows
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md J5
-- sentence: Time in kernels whose names no rule tells to be computing or communication, over the time of all kernels of the run, side by side counted twice. It counts as computing: should these kernels communicate, computing is too long by it.
SELECT total(iif(class = 'unclassified', ns, 0)) / nullif(sum(ns), 0) AS value, iif(count(*) > 0, 'ZERO_DENOM', 'NOT_APPLICABLE') AS why
FROM kernel_time WHERE world = :world
