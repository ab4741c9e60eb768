-- id: early_reduce
-- name: Waiting in reductions
-- unit: ns
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W8, W12
-- sentence: Time in MPI_Reduce, MPI_Gather and the like before the last rank entered, or of those who left earlier before the root did, over the whole run, of those that could be split.
SELECT sum(g.wait_ns) AS value, coalesce((SELECT u.why FROM unsplit u JOIN op o ON o.id = u.op WHERE u.world = :world AND o.class = 'all_to_root' ORDER BY u.calls DESC LIMIT 1), 'NO_DATA') AS why, sum(g.sigma_ns) AS sigma
FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = :world AND o.class = 'all_to_root'
