-- id: late_rate
-- name: Share of collectives entered last
-- unit: ratio
-- better: lower
-- scope: rank
-- source: specification.md R8, W10
-- sentence: Share of the collectives with waiting that this rank, or one that it kept waiting with its messages, entered last, or as the late root; ties count in part. A straggler has both this and blame_of_rank above the smaller of 2 / ranks and (1 + 1 / ranks) / 2.
WITH late_of AS (SELECT rank, sum(instances * 1.0 / ties) AS last FROM late WHERE world = :world AND message = 0 AND longest_ns > 0 GROUP BY rank), whole AS (SELECT sum(last) AS last FROM late_of)
SELECT p.rank, iif(whole.last IS NULL, NULL, coalesce(l.last, 0) / whole.last) AS value, iif(EXISTS (SELECT 1 FROM late WHERE world = :world AND message = 0), 'ZERO_DENOM', 'NO_DATA') AS why
FROM process p JOIN whole LEFT JOIN late_of l ON l.rank = p.rank WHERE p.world = :world AND p.rank IS NOT NULL GROUP BY p.rank ORDER BY p.rank
