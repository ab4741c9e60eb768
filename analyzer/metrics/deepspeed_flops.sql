-- id: deepspeed_flops
-- name: Arithmetic per second of forward and backward (DeepSpeed)
-- unit: FLOP/s
-- better: higher
-- scope: step
-- source: specification.md F4: 3 fwd_flops / (t_fwd + t_bwd) is model_flops over that time, with backward twice forward
-- sentence: Arithmetic of the model in a step (ddl_value "model_flops") over the time of its phases named forward and backward, mean of a rank; without optimizer, time in MPI and all else, so larger than the step's rate. Not for GPUs, which compute after the phases that launch their work.
WITH timed AS (
  SELECT e.step, total(e.duration_ns - e.mpi_ns) AS ns, count(DISTINCT 2 * p.rank + (lower(r.name) = 'forward')) AS phases FROM (SELECT 1 FROM reported WHERE world = :world AND name = 'model_flops' LIMIT 1) CROSS JOIN range_event e
  JOIN region r ON r.id = e.region AND r.kind = 'phase' AND lower(r.name) IN ('forward', 'backward') JOIN process p ON p.id = e.process AND p.world = :world AND p.rank IS NOT NULL
  WHERE e.step IS NOT NULL GROUP BY e.step
), world AS (SELECT max(world_size) AS ranks, EXISTS (SELECT 1 FROM steady_gpu WHERE world = :world) AS gpus FROM counted WHERE world = :world)
SELECT s.step, iif(NOT w.gpus AND r.ranks = w.ranks AND t.phases = 2 * w.ranks, r.total * 1e9 / nullif(t.ns, 0), NULL) AS value,
       CASE WHEN w.gpus THEN 'NOT_APPLICABLE' WHEN r.ranks IS NULL OR t.phases IS NULL THEN 'NO_DATA' WHEN r.ranks < w.ranks OR t.phases < 2 * w.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why
FROM steady_step s JOIN world w LEFT JOIN reported r ON r.world = s.world AND r.name = 'model_flops' AND r.step = s.step LEFT JOIN timed t ON t.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
