-- id: network_intensity
-- name: Arithmetic per byte on the wire
-- unit: FLOP/byte
-- better: higher
-- scope: job
-- source: metrics.md C9
-- sentence: Arithmetic of the model in a step (ddl_value "model_flops") over the bytes that its collectives put on the wire, S times the bus factor of each, all ranks together.
WITH reported AS (
  SELECT v.step, sum(v.value) AS flops, count(DISTINCT v.process) AS ranks FROM value v JOIN process p ON p.id = v.process
  WHERE p.world = :world AND v.name = 'model_flops' AND v.step IS NOT NULL GROUP BY v.step
), world AS (SELECT max(world_size) AS ranks FROM process WHERE world = :world AND rank IS NOT NULL), wire AS (
  SELECT sum(g.bytes * g.bus_factor * g.step_instances * c.size) AS bytes FROM collective_group g JOIN communicator c ON c.id = g.comm WHERE g.world = :world
), all_steps AS (SELECT sum(flops) AS flops, min(ranks) AS ranks FROM reported)
SELECT iif(all_steps.ranks = world.ranks, all_steps.flops / nullif(wire.bytes, 0), NULL) AS value,
       CASE WHEN all_steps.ranks IS NULL THEN 'NO_DATA' WHEN all_steps.ranks < world.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM wire JOIN all_steps JOIN world
