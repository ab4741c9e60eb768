-- id: gpu_idle_input
-- name: GPU idle for input
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md I1
-- sentence: Share of the steady steps in which GPUs did nothing while the host loaded data, as ranges named input, data, dataloader and the like tell; n/a in runs that name none.
SELECT sum(idle_input_ns) * 1.0 / nullif(sum(duration_ns), 0) AS value, CASE WHEN count(*) = 0 THEN 'NOT_APPLICABLE' WHEN count(idle_input_ns) = 0 THEN 'NO_DATA' ELSE 'ZERO_DENOM' END AS why
FROM steady_gpu WHERE world = :world
