-- id: blame_share
-- name: Largest share of the blame
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md R8, W10
-- sentence: Share of all waiting in collectives that one rank caused by entering last, or as the late root: the rank that caused most. 1 / ranks is nobody's fault.
SELECT max(wait_ns) * 1.0 / nullif(sum(wait_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why, sum(sigma_ns) / nullif(sum(wait_ns), 0) AS sigma FROM caused WHERE world = :world
