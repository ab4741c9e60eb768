-- id: nxn_completion
-- name: Completion of symmetric collectives
-- unit: ns
-- better: lower
-- scope: job
-- source: specification.md W1, W7
-- sentence: Time that ranks stayed in blocking symmetric collectives after the first one had left, over the whole run and all ranks. Its clock sigma is that of the waiting in the same collectives, which the same entries and leaves tell.
SELECT sum(completion_ns) AS value, iif(EXISTS (SELECT 1 FROM collective_group WHERE world = :world AND wait_method = 'min-duration'), 'CLOCK_UNTRUSTED', 'NO_DATA') AS why, sum(sigma_ns) AS sigma
FROM collective_group WHERE world = :world AND completion_ns IS NOT NULL
