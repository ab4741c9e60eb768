-- id: ccr_xfer
-- name: Compute / transfer
-- unit: ratio
-- better: higher
-- scope: step
-- bound: lower
-- needs: computing
-- source: specification.md C2
-- sentence: Compute time over the time inside MPI that is not waiting for another rank: the ratio to tune by. Transfers hidden behind compute are not in it. Over all steps together where the median step has next to none.
SELECT step, iif(xfer_ns = 0 AND compute_ns > 0, 9e999, compute_ns * 1.0 / nullif(xfer_ns, 0)) AS value, iif(xfer_ns = 0, 'ZERO_DENOM', why) AS why, compute_ns * sigma_ns / nullif(1.0 * xfer_ns * xfer_ns, 0) AS sigma, compute_ns AS part, xfer_ns AS whole
FROM steady_step WHERE world = :world ORDER BY step
