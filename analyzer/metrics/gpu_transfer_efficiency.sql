-- id: gpu_transfer_efficiency
-- name: GPU transfer efficiency
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md P12
-- sentence: The longest compute time of a GPU over its longest time with something to do, without waiting for other ranks: the cost of exposed transfers and copies.
SELECT max(compute_ns) * 1.0 / nullif(iif(count(active_xfer_ns) = count(*), max(active_xfer_ns), NULL), 0) AS value, iif(count(*) = 0, 'NOT_APPLICABLE', coalesce(max(why), 'ZERO_DENOM')) AS why, max(sigma_ns) / nullif(max(active_ns), 0) AS sigma
FROM steady_gpu WHERE world = :world
