-- id: message_wait_share
-- name: Waiting in messages
-- unit: ratio
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W11, W5, W6
-- sentence: Waiting for late senders and receivers over the time in calls in which messages completed, of those calls whose waiting is known.
SELECT sum(t.late_sender_wait_ns + t.late_receiver_wait_ns) * 1.0 / nullif(sum(t.call_ns), 0) AS value,
       iif(count(*) = 0, 'NO_DATA', coalesce(max(t.why), 'ZERO_DENOM')) AS why, sum(t.sigma_ns) / nullif(sum(t.call_ns), 0) AS sigma
FROM message_part t JOIN process p ON p.id = t.process WHERE p.world = :world
