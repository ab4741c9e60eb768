-- id: mfu
-- name: Model FLOP utilisation
-- unit: ratio
-- better: higher
-- scope: step
-- source: specification.md F1
-- sentence: Arithmetic of the model in a step over the processors' peak in that time, all ranks together: ddl_value("model_flops", n) in each step (forward and backward without recomputation), and once ddl_value("peak_flops_per_second", n) of the rank's device, at the precision in use, without sparsity. Nothing is guessed.
WITH device AS (
  SELECT total(peak) AS flops_per_second, count(DISTINCT iif(peak IS NOT NULL, rank, NULL)) AS ranks, max(world_size) AS all_ranks FROM counted WHERE world = :world
)
SELECT s.step, iif(r.ranks = d.all_ranks AND d.ranks = d.all_ranks, r.total * 1e9 / nullif(s.longest_ns, 0) / nullif(d.flops_per_second, 0), NULL) AS value,
       CASE WHEN r.ranks IS NULL OR d.ranks = 0 THEN 'NO_DATA' WHEN r.ranks < d.all_ranks OR d.ranks < d.all_ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_step s JOIN device d LEFT JOIN reported r ON r.world = s.world AND r.name = 'model_flops' AND r.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
