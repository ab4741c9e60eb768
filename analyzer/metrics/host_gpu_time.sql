-- id: host_gpu_time
-- name: Host in calls of the GPU runtime
-- unit: ns
-- better: lower
-- scope: step
-- source: specification.md T6 (T_host_gpu, of the calls that are recorded; T_host_mpi is exposed_comm_mean)
-- sentence: Time that threads of a rank spent in a step launching work on GPUs and waiting for it (cudaLaunchKernel, cudaMemcpyAsync, ..., cudaStreamSynchronize, ...), mean over the ranks; a call counts once however much it launches (CUDA graphs). Other calls of the runtime leave no record.
SELECT s.step, c.ns * 1.0 / s.ranks AS value, iif(EXISTS (SELECT 1 FROM steady_gpu WHERE world = :world), 'NO_DATA', 'NOT_APPLICABLE') AS why
FROM steady_step s LEFT JOIN host_gpu c ON c.world = s.world AND c.step = s.step WHERE s.world = :world AND s.annotated ORDER BY s.step
