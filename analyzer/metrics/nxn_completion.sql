-- id: nxn_completion
-- name: Completion of symmetric collectives
-- unit: ns
-- better: lower
-- scope: job
-- source: metrics.md W1, W7
-- sentence: Time that ranks stayed in blocking symmetric collectives after the first one had left, over the whole run and all ranks.
SELECT sum(completion_ns) AS value, iif(EXISTS (SELECT 1 FROM collective_group WHERE world = :world AND wait_method = 'min-duration'), 'CLOCK_UNTRUSTED', 'NO_DATA') AS why,
       iif(count(completion_ns) > 0, sum(sigma_ns), NULL) AS sigma
FROM collective_group WHERE world = :world
