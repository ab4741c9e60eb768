-- id: f_wait
-- name: Waiting, share of the step
-- unit: ratio
-- better: lower
-- scope: step
-- bound: lower
-- needs: communication
-- source: specification.md V
-- sentence: Share of the step in which ranks waited for another rank, in collectives and for messages, over all ranks. Balance cures it, a faster network does not.
SELECT step, wait_ns * 1.0 / nullif(duration_ns, 0) AS value, iif(duration_ns = 0, 'ZERO_DENOM', why) AS why, sigma_ns / nullif(duration_ns, 0) AS sigma
FROM steady_step WHERE world = :world ORDER BY step
