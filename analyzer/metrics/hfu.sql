-- id: hfu
-- name: Hardware FLOP utilisation
-- unit: ratio
-- better: higher
-- scope: job
-- source: metrics.md F3
-- sentence: Floating point operations that the processors counted in the steps, recomputation included, over what they could do in that time, all ranks together: needs ddl record --counters PAPI_FP_OPS and ddl_value("peak_flops_per_second", n) on all ranks. Not of GPUs.
WITH counted AS (
  SELECT sum(f.value) AS flops, count(DISTINCT f.process) AS ranks
  FROM counter_profile f JOIN counter c ON c.process = f.process AND c.number = f.counter AND c.source IS NOT NULL AND c.name = 'PAPI_FP_OPS'
  JOIN region r ON r.id = f.region AND r.kind = 'step' JOIN process p ON p.id = f.process WHERE p.world = :world
), timed AS (
  SELECT sum(f.time_ns * k.peak) AS flops_ns, count(*) AS ranks
  FROM range_profile f JOIN region r ON r.id = f.region AND r.kind = 'step' JOIN process p ON p.id = f.process
  JOIN (SELECT process, max(value) AS peak FROM value WHERE name = 'peak_flops_per_second' GROUP BY process) k ON k.process = f.process WHERE p.world = :world
), world AS (SELECT max(world_size) AS ranks FROM process WHERE world = :world AND rank IS NOT NULL)
SELECT iif(counted.ranks = world.ranks AND timed.ranks = world.ranks, counted.flops * 1e9 / nullif(timed.flops_ns, 0), NULL) AS value,
       CASE WHEN counted.ranks = 0 OR timed.ranks = 0 THEN 'NO_DATA' WHEN counted.ranks < world.ranks OR timed.ranks < world.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM counted JOIN timed JOIN world
