-- id: gpu_ccr_exposed
-- name: GPU compute / exposed collectives
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md C3
-- sentence: Compute time over the time of collectives on GPUs that nothing hides; undefined when all are hidden.
SELECT sum(compute_ns) * 1.0 / nullif(sum(exposed_comm_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
