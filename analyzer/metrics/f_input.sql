-- id: f_input
-- name: Loading data, share of the step
-- unit: ratio
-- better: lower
-- scope: step
-- source: specification.md I1, J2, V (host)
-- sentence: Share of the step in which the ranks' own threads loaded data and did nothing else, computing or blocked, over all ranks, as ranges named input, data, dataloader and the like tell. Where GPUs compute meanwhile it costs nothing: see gpu_idle_input.
SELECT step, input_ns * 1.0 / nullif(duration_ns, 0) AS value, iif(duration_ns = 0, 'ZERO_DENOM', 'NO_DATA') AS why
FROM steady_step WHERE world = :world AND annotated ORDER BY step
