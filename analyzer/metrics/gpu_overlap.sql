-- id: gpu_overlap
-- name: GPU overlap
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md C6
-- sentence: Share of the time of collectives on GPUs during which the same GPU computed.
SELECT 1 - sum(exposed_comm_ns) * 1.0 / nullif(sum(comm_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
