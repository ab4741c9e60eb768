-- id: transfer_efficiency
-- name: Transfer efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md P5 (variant: run time without detected waiting, as Scalasca)
-- sentence: Longest time of a rank without its waiting over the longest with it: the share of the time that a job that never waits would need. Named by POP, though it is waiting that is missing.
WITH r AS (
  SELECT sum(compute_ns) AS u, sum(duration_ns) AS t, iif(count(wait_ns) = count(*), sum(duration_ns - wait_ns), NULL) AS ideal, max(why) AS why, sum(sigma_ns) AS sigma_ns
  FROM steady_part WHERE world = :world GROUP BY rank
)
SELECT iif(count(ideal) = count(*), max(ideal), NULL) * 1.0 / nullif(max(t), 0) AS value, iif(count(*) = 0, 'NO_DATA', coalesce(max(why), 'ZERO_DENOM')) AS why, max(sigma_ns) / nullif(max(t), 0) AS sigma FROM r
