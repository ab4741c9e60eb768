-- id: mfu
-- name: Model FLOP utilisation
-- unit: ratio
-- better: higher
-- scope: step
-- source: metrics.md F1
-- sentence: Arithmetic of the model in a step over what the processors could do in that time, all ranks together: ddl_value("model_flops", n) in each step (forward and backward without recomputation), and once ddl_value("peak_flops_per_second", n) of the rank's device, at the precision in use, without sparsity. Nothing is guessed.
WITH reported AS (
  SELECT v.step, sum(v.value) AS flops, count(DISTINCT v.process) AS ranks FROM value v JOIN process p ON p.id = v.process
  WHERE p.world = :world AND v.name = 'model_flops' AND v.step IS NOT NULL GROUP BY v.step
), world AS (SELECT max(world_size) AS ranks FROM process WHERE world = :world AND rank IS NOT NULL), peak AS (
  SELECT sum(peak) AS flops_per_second, count(*) AS ranks FROM (SELECT max(v.value) AS peak FROM value v JOIN process p ON p.id = v.process
    WHERE p.world = :world AND v.name = 'peak_flops_per_second' GROUP BY v.process)
)
SELECT s.step, iif(r.ranks = world.ranks AND peak.ranks = world.ranks, r.flops * 1e9 / nullif(s.longest_ns, 0) / nullif(peak.flops_per_second, 0), NULL) AS value,
       CASE WHEN r.ranks IS NULL OR peak.ranks = 0 THEN 'NO_DATA' WHEN r.ranks < world.ranks OR peak.ranks < world.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_step s LEFT JOIN reported r ON r.step = s.step JOIN world JOIN peak WHERE s.world = :world AND s.annotated ORDER BY s.step
