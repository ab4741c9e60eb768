-- id: barrier_wait
-- name: Waiting at barriers
-- unit: ns
-- better: lower
-- scope: job
-- source: metrics.md W7
-- sentence: Waiting for the last rank to enter barriers, over the whole run and all ranks, of those that could be split.
SELECT sum(g.wait_ns) AS value, CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN max(g.why = 'CLOCK_UNTRUSTED') THEN 'CLOCK_UNTRUSTED' ELSE 'PARTIAL_RANKS' END AS why, sum(g.sigma_ns) AS sigma
FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = :world AND o.class = 'barrier'
