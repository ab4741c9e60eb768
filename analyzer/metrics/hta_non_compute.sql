-- id: hta_non_compute
-- name: HTA non-compute time
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md "Breakdown by HTA"
-- sentence: By HTA's rules: share of the time between the first and the last event of GPUs with copies or collectives and no computing.
SELECT sum(non_compute_ns) * 1.0 / nullif(sum(kernel_time_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM hta_part h JOIN process p ON p.id = h.process WHERE p.world = :world AND h.whole = 0
