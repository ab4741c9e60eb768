-- id: gpu_wait_efficiency
-- name: GPU wait efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12
-- sentence: The longest time a GPU has something to do, without and with the waiting for other ranks inside kernels of collectives.
SELECT iif(count(active_xfer_ns) = count(*), max(active_xfer_ns), NULL) * 1.0 / nullif(max(active_ns), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(why), 'ZERO_DENOM')) AS why, max(sigma_ns) / nullif(max(active_ns), 0) AS sigma
FROM steady_gpu WHERE world = :world
