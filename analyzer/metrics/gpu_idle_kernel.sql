-- id: gpu_idle_kernel
-- name: GPU idle between kernels
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I4
-- sentence: Share of the steady steps in which GPUs did nothing between two kernels that were both launched.
SELECT sum(idle_kernel_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
