-- id: f_xfer
-- name: Exposed transfer, share of the step
-- unit: ratio
-- better: lower
-- scope: step
-- bound: upper
-- needs: communication
-- source: specification.md V
-- sentence: Share of the step spent inside MPI calls without waiting for another rank, in collectives or for messages, over all ranks.
SELECT step, xfer_ns * 1.0 / nullif(duration_ns, 0) AS value, iif(duration_ns = 0, 'ZERO_DENOM', why) AS why, sigma_ns / nullif(duration_ns, 0) AS sigma
FROM steady_step WHERE world = :world ORDER BY step
