-- id: statistical_efficiency
-- name: Statistical efficiency of the batch
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md G4 (Pollux), M0: the batch of one rank
-- sentence: Progress per sample at the batch of all ranks, M, over that at the batch of one rank, M0: (noise scale + M0) / (noise scale + M).
SELECT (scale + own_samples) / (scale + all_samples) AS value, why, (lo + own_samples) / (lo + all_samples) AS lo, (hi + own_samples) / (hi + all_samples) AS hi
FROM noise WHERE world = :world
