-- id: noise_scale
-- name: Gradient noise scale
-- unit: samples
-- better: none
-- scope: job
-- source: specification.md G3
-- sentence: Batch size from which on larger batches train hardly better per sample: variance of a sample's gradient over the squared norm of the true one, each averaged over the steps first, the last ones most. Needs ddl_value("local_gradient_norm"), ("gradient_norm") and ("samples") on all ranks.
SELECT scale AS value, why, lo, hi FROM noise WHERE world = :world
