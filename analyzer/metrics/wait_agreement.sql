-- id: wait_agreement
-- name: Disagreement of the wait estimates
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md W4
-- sentence: Difference of the waiting found with clocks (max-start) and without (min-duration), over the latter, in blocking symmetric collectives. Above 0.05 while waiting is large: suspect the clocks or the matching of calls.
SELECT abs(sum(wait_ns) - sum(min_duration_wait_ns)) * 1.0 / nullif(sum(min_duration_wait_ns), 0) AS value,
       CASE WHEN count(*) > 0 THEN 'ZERO_DENOM'
            WHEN EXISTS (SELECT 1 FROM collective_group g WHERE g.world = :world AND g.wait_method = 'min-duration') THEN 'CLOCK_UNTRUSTED'
            ELSE 'NO_DATA' END AS why,
       sum(sigma_ns) / nullif(sum(min_duration_wait_ns), 0) AS sigma
FROM collective_group WHERE world = :world AND wait_method = 'max-start' AND min_duration_wait_ns IS NOT NULL
