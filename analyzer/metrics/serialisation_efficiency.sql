-- id: serialisation_efficiency
-- name: Serialisation efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P4 (variant: run time without detected waiting, as Scalasca)
-- sentence: Largest compute time of a rank over the longest time of a rank without its waiting: what computing in turns costs. Times transfer_efficiency: communication efficiency.
WITH r AS (
  SELECT sum(compute_ns) AS u, sum(duration_ns) AS t, iif(count(wait_ns) = count(*), sum(duration_ns - wait_ns), NULL) AS ideal, max(why) AS why, sum(sigma_ns) AS sigma_ns
  FROM steady_part WHERE world = :world GROUP BY rank
)
SELECT max(u) * 1.0 / nullif(iif(count(ideal) = count(*), max(ideal), NULL), 0) AS value, iif(count(*) = 0, 'NO_DATA', coalesce(max(why), 'ZERO_DENOM')) AS why,
       max(u) * max(sigma_ns) / nullif(1.0 * max(ideal) * max(ideal), 0) AS sigma FROM r
