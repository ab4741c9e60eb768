-- id: gpu_exposed_comm
-- name: GPU time in collectives that nothing hides
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md C8
-- sentence: Share of the steady steps in which GPUs ran collectives and did not compute.
SELECT sum(exposed_comm_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
