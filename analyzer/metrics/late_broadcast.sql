-- id: late_broadcast
-- name: Waiting for late roots
-- unit: ns
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W9
-- sentence: Time that ranks spent in MPI_Bcast, MPI_Scatter and the like before the root entered, over the whole run, of those that could be split.
SELECT sum(g.wait_ns) AS value, coalesce((SELECT u.why FROM unsplit u JOIN op o ON o.id = u.op WHERE u.world = :world AND o.class = 'root_to_all' ORDER BY u.calls DESC LIMIT 1), 'NO_DATA') AS why, sum(g.sigma_ns) AS sigma
FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = :world AND o.class = 'root_to_all'
