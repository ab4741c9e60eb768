-- id: transfer_efficiency
-- name: Transfer efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- bound: upper
-- needs: computing
-- source: specification.md P5 (variant: run time without detected waiting, as Scalasca)
-- sentence: Longest time of a rank without its waiting over the longest with it: the cost of waiting, as by ranks that compute in turns. Named by POP, though it is waiting that is missing.
SELECT iif(count(wait_ns) = count(*), max(duration_ns - wait_ns), NULL) * 1.0 / nullif(max(duration_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', coalesce(max(why), 'ZERO_DENOM')) AS why,
       max(sigma_ns) / nullif(max(duration_ns), 0) AS sigma
FROM steady_rank WHERE world = :world
