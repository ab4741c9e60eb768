-- id: blame_of_rank
-- name: Share of the blame
-- unit: ratio
-- better: lower
-- scope: rank
-- source: specification.md R8, W10
-- sentence: Share of all waiting in collectives that this rank caused by entering last, or as the late root. 1 / ranks is nobody's fault.
WITH whole AS (SELECT sum(wait_ns) AS wait_ns, count(*) AS n FROM caused WHERE world = :world)
SELECT p.rank, iif(whole.n = 0, NULL, coalesce(c.wait_ns, 0) * 1.0 / nullif(whole.wait_ns, 0)) AS value, iif(whole.n = 0, 'NO_DATA', 'ZERO_DENOM') AS why,
       coalesce(c.sigma_ns, 0) / nullif(whole.wait_ns, 0) AS sigma
FROM process p JOIN whole LEFT JOIN caused c ON c.world = p.world AND c.late = p.rank WHERE p.world = :world AND p.rank IS NOT NULL GROUP BY p.rank ORDER BY p.rank
