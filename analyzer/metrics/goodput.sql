-- id: goodput
-- name: Goodput (Pollux)
-- unit: samples/s
-- better: higher
-- scope: job
-- source: metrics.md G5, M0: the batch of one rank
-- sentence: Throughput times statistical efficiency: samples per second that count as much as those of a batch of one rank would. Not the share of time that a job is productive (productive_time).
SELECT t.value * (n.scale + n.own_samples) / (n.scale + n.all_samples) AS value, iif(n.scale IS NULL, n.why, t.why) AS why
FROM noise n LEFT JOIN (
  SELECT sum(r.samples) * 1e9 / nullif(sum(s.longest_ns), 0) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why
  FROM steady_step s JOIN (SELECT v.step, sum(v.value) AS samples FROM value v JOIN process p ON p.id = v.process
    WHERE p.world = :world AND v.name = 'samples' GROUP BY v.step) r ON r.step = s.step WHERE s.world = :world AND s.annotated
) t WHERE n.world = :world
