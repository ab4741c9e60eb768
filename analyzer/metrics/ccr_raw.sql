-- id: ccr_raw
-- name: Compute / communication, raw
-- unit: ratio
-- better: higher
-- scope: step
-- needs: computing
-- source: specification.md C1
-- sentence: Compute time over communication time, waiting included; with non-blocking collectives the communication time is an upper bound. Over all steps together where the median step has next to none.
SELECT step, iif(comm_ns = 0 AND compute_ns > 0, 9e999, compute_ns * 1.0 / nullif(comm_ns, 0)) AS value, iif(comm_ns = 0, 'ZERO_DENOM', 'NO_DATA') AS why, compute_ns AS part, comm_ns AS whole
FROM steady_step WHERE world = :world ORDER BY step
