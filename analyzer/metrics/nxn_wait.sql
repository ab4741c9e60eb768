-- id: nxn_wait
-- name: Waiting in all-to-all collectives
-- unit: ns
-- better: lower
-- scope: job
-- source: metrics.md W1, W2
-- sentence: Waiting for the last rank to enter collectives in which all send to all (MPI_Allreduce, MPI_Allgather, MPI_Alltoall, ...), over the whole run and all ranks, of those that could be split.
SELECT sum(g.wait_ns) AS value, CASE WHEN count(*) = 0 THEN 'NO_DATA' WHEN max(g.why = 'CLOCK_UNTRUSTED') THEN 'CLOCK_UNTRUSTED' ELSE 'PARTIAL_RANKS' END AS why, sum(g.sigma_ns) AS sigma
FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = :world AND o.class = 'all_to_all'
