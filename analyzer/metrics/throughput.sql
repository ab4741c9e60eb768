-- id: throughput
-- name: Throughput
-- unit: samples/s
-- better: higher
-- scope: step
-- source: metrics.md S1
-- sentence: Samples per second: what all ranks reported with ddl_value("samples", n) in a step, over the time of the slowest rank.
WITH reported AS (
  SELECT p.world, v.step, sum(v.value) AS samples
  FROM value v JOIN process p ON p.id = v.process
  WHERE v.name = 'samples' AND v.step IS NOT NULL GROUP BY p.world, v.step
)
SELECT s.step, r.samples * 1e9 / nullif(s.longest_ns, 0) AS value, iif(s.longest_ns = 0, 'ZERO_DENOM', NULL) AS why
FROM steady_step s JOIN reported r ON r.world = s.world AND r.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
