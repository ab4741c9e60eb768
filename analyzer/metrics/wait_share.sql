-- id: wait_share
-- name: Waiting in collectives
-- unit: ratio
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W11
-- sentence: Waiting over duration, of all recorded collectives that could be split; unknown where others took more than 5 % of the time of all. Non-blocking ones count from post to completion, hidden or not.
SELECT iif(total(time_ns * (calls - split_calls) * 1.0 / calls) <= 0.05 * total(time_ns), sum(wait_ns) * 1.0 / nullif(sum(wait_ns + xfer_ns), 0), NULL) AS value,
       CASE WHEN sum(wait_ns + xfer_ns) = 0 THEN 'ZERO_DENOM' ELSE coalesce((SELECT why FROM unsplit WHERE world = :world ORDER BY calls DESC LIMIT 1), 'NO_DATA') END AS why,
       sum(sigma_ns) / nullif(sum(wait_ns + xfer_ns), 0) AS sigma
FROM collective_group WHERE world = :world
