-- id: gpu_exposed_wait
-- name: GPU waiting in collectives that nothing hides
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md C5
-- sentence: Share of the steady steps in which GPUs waited for other ranks inside the kernels of collectives and did not compute.
SELECT iif(count(exposed_wait_ns) = count(*), sum(exposed_wait_ns), NULL) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(why), 'ZERO_DENOM')) AS why, sum(sigma_ns) / nullif(sum(duration_ns), 0) AS sigma
FROM steady_gpu WHERE world = :world
