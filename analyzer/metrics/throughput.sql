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
), seen AS (
  SELECT count(DISTINCT rank) < max(world_size) AS partial FROM process WHERE world = :world AND rank IS NOT NULL
)
SELECT s.step, iif(seen.partial, NULL, r.samples * 1e9 / nullif(s.longest_ns, 0)) AS value,
       CASE WHEN seen.partial THEN 'PARTIAL_RANKS' WHEN s.longest_ns = 0 THEN 'ZERO_DENOM' END AS why
FROM steady_step s JOIN reported r ON r.world = s.world AND r.step = s.step JOIN seen
WHERE s.world = :world AND s.annotated ORDER BY s.step
