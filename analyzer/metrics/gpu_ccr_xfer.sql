-- id: gpu_ccr_xfer
-- name: GPU compute / transfer
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md C2
-- sentence: Compute time over the time of collectives on GPUs that is not waiting for another rank inside their kernels: the ratio to tune by.
SELECT sum(compute_ns) * 1.0 / nullif(sum(comm_ns) - iif(count(wait_ns) = count(*), sum(wait_ns), NULL), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(why), 'ZERO_DENOM')) AS why,
       sum(compute_ns) * sum(sigma_ns) / nullif(1.0 * (sum(comm_ns) - sum(wait_ns)) * (sum(comm_ns) - sum(wait_ns)), 0) AS sigma
FROM steady_gpu WHERE world = :world
