-- id: hta_overlap
-- name: HTA communication computation overlap
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md "Breakdown by HTA"
-- sentence: By HTA's rules: share of the time of collectives during which a kernel computed, the last of several steps left out.
SELECT sum(overlap_ns) * 1.0 / nullif(sum(comm_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', 'ZERO_DENOM') AS why
FROM hta_part h JOIN process p ON p.id = h.process WHERE p.world = :world AND h.whole = 0
