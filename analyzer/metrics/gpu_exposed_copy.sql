-- id: gpu_exposed_copy
-- name: GPU time in copies that nothing hides
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md T3, T5
-- sentence: Share of the steady steps in which GPUs copied or set memory, and ran no kernel.
SELECT sum(exposed_copy_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
