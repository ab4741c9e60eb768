-- id: batch_to_noise
-- name: Batch over the noise scale
-- unit: ratio
-- better: none
-- scope: job
-- source: specification.md G3, G7
-- sentence: Samples of all ranks in a step over the gradient noise scale. Well below 1 a larger batch costs few samples, above 1 most of the added samples are wasted.
SELECT all_samples / scale AS value, why, all_samples / hi AS lo, all_samples / lo AS hi FROM noise WHERE world = :world
