-- id: serialisation_efficiency
-- name: Serialisation efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- bound: lower
-- needs: computing
-- source: specification.md P4 (variant: run time without detected waiting, as Scalasca)
-- sentence: Largest compute time of a rank over the longest time of a rank without its waiting: the cost of transfers, which is all that is left beside computing. Times transfer_efficiency: communication efficiency.
WITH ideal AS (SELECT iif(count(wait_ns) = count(*), max(duration_ns - wait_ns), NULL) AS ns FROM steady_rank WHERE world = :world)
SELECT max(compute_ns) * 1.0 / nullif(ideal.ns, 0) AS value, iif(count(*) = 0, 'NO_DATA', coalesce(max(why), 'ZERO_DENOM')) AS why,
       max(compute_ns) * max(sigma_ns) / nullif(1.0 * ideal.ns * ideal.ns, 0) AS sigma
FROM steady_rank JOIN ideal WHERE world = :world
