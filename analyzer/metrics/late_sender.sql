-- id: late_sender
-- name: Waiting for late senders
-- unit: ns
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W5
-- sentence: Time that receivers spent in calls before the message was sent, over the whole run and all ranks, of the messages whose two ends are known.
SELECT iif(sum(t.call_ns) > 0 OR sum(t.unsplit_ns) = 0, sum(t.late_sender_wait_ns), NULL) AS value,
       iif(count(*) = 0, 'NO_DATA', coalesce(max(t.why), 'ZERO_DENOM')) AS why, sum(t.sigma_ns) AS sigma
FROM message_part t JOIN process p ON p.id = t.process WHERE p.world = :world
