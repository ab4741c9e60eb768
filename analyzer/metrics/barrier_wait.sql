-- id: barrier_wait
-- name: Waiting at barriers
-- unit: ns
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W7
-- sentence: Waiting for the last rank to enter barriers, over the whole run and all ranks, of those that could be split.
SELECT sum(g.wait_ns) AS value, coalesce((SELECT u.why FROM unsplit u JOIN op o ON o.id = u.op WHERE u.world = :world AND o.class = 'barrier' ORDER BY u.calls DESC LIMIT 1), 'NO_DATA') AS why, sum(g.sigma_ns) AS sigma
FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = :world AND o.class = 'barrier'
