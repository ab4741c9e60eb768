-- id: gpu_overlap_xfer
-- name: GPU overlap of transfers
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md C7
-- sentence: Share of the time of collectives on GPUs, without the waiting for other ranks inside their kernels, during which the same GPU computed.
SELECT 1 - (sum(exposed_comm_ns) - iif(count(exposed_wait_ns) = count(*), sum(exposed_wait_ns), NULL)) * 1.0 / nullif(sum(comm_ns) - sum(wait_ns), 0) AS value,
       iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(why), 'ZERO_DENOM')) AS why,
       sum(sigma_ns) / nullif(sum(comm_ns) - sum(wait_ns), 0) AS sigma
FROM steady_gpu WHERE world = :world
