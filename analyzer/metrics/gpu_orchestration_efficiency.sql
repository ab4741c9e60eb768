-- id: gpu_orchestration_efficiency
-- name: GPU orchestration efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P12, P11
-- sentence: The longest time that a GPU has anything to do over the time of the steady steps: what is missing is idling.
SELECT max(active_ns) * 1.0 / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM steady_gpu WHERE world = :world
