-- id: late_receiver
-- name: Waiting for late receivers
-- unit: ns
-- better: lower
-- scope: job
-- bound: lower
-- source: specification.md W6
-- sentence: Time that senders spent in calls before the receive was posted, over the whole run and all ranks, of the messages whose two ends are known. Only sends that need their receiver (large or synchronous ones) wait.
SELECT iif(sum(t.call_ns) > 0 OR sum(t.unsplit_ns) = 0, sum(t.late_receiver_wait_ns), NULL) AS value,
       iif(count(*) = 0, 'NO_DATA', coalesce(max(t.why), 'ZERO_DENOM')) AS why, sum(t.sigma_ns) AS sigma
FROM message_part t JOIN process p ON p.id = t.process WHERE p.world = :world
