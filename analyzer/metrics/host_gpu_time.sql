-- id: host_gpu_time
-- name: Host in calls of the GPU runtime
-- unit: ns
-- better: lower
-- scope: step
-- source: metrics.md T6 (T_host_gpu, of the calls that are recorded; T_host_mpi is exposed_comm_mean)
-- sentence: Time that threads of a rank spent in a step launching work on GPUs and waiting for it (cudaLaunchKernel, cudaMemcpyAsync, ..., cudaStreamSynchronize, ...), mean over the ranks. Other calls of the runtime leave no record.
WITH calls AS (
  SELECT g.step, total(iif(g.kind = 4, g.duration_ns, g.launch_duration_ns)) AS ns, count(iif(g.kind = 4, g.duration_ns, g.launch_duration_ns)) AS known FROM gpu_event g
  JOIN process p ON p.id = g.process AND p.world = :world AND p.rank IS NOT NULL JOIN gpu_name n ON n.id = g.name
  WHERE g.step IS NOT NULL AND g.graph_node IS NULL AND g.kind IN (1, 2, 3, 4, 6) AND NOT (g.kind = 4 AND n.name LIKE '%stream wait%') GROUP BY g.step
)
SELECT s.step, iif(c.known > 0, c.ns / s.ranks, NULL) AS value, iif(EXISTS (SELECT 1 FROM steady_gpu WHERE world = :world), 'NO_DATA', 'NOT_APPLICABLE') AS why
FROM steady_step s LEFT JOIN calls c ON c.step = s.step WHERE s.world = :world AND s.annotated ORDER BY s.step
