-- id: hta_compute
-- name: HTA compute time
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md "Breakdown by HTA"
-- sentence: By HTA's rules: share of the time between the first and the last event of GPUs in which a kernel computed.
SELECT sum(compute_ns) * 1.0 / nullif(sum(kernel_time_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM hta_part h JOIN process p ON p.id = h.process WHERE p.world = :world AND h.whole = 0
