-- id: gpu_ccr_raw
-- name: GPU compute / collectives, raw
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md C1
-- sentence: Compute time over time of collectives on GPUs, waiting included.
SELECT sum(compute_ns) * 1.0 / nullif(sum(comm_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
