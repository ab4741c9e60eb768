-- id: hfu
-- name: Hardware FLOP utilisation
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md F3
-- sentence: Floating point operations that the processors counted in the steps, recomputation included, over their peak in that time, all ranks together: needs ddl record --counters PAPI_FP_OPS and ddl_value("peak_flops_per_second", n) on all ranks. Not for GPUs.
SELECT iif(count(DISTINCT iif(flops * peak * time_ns IS NOT NULL, rank, NULL)) = max(world_size), total(flops) * 1e9 / nullif(total(time_ns * peak), 0), NULL) AS value,
       CASE WHEN count(flops * peak * time_ns) = 0 THEN 'NO_DATA' WHEN count(DISTINCT iif(flops * peak * time_ns IS NOT NULL, rank, NULL)) < max(world_size) THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM counted WHERE world = :world
