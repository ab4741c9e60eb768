-- id: gradient_variance
-- name: Variance of the gradient of a sample
-- unit: 1
-- better: none
-- scope: job
-- source: specification.md G2
-- sentence: Sum over the parameters of the variance of one sample's gradient (trace of the covariance), from the same norms.
SELECT trace AS value, why FROM noise WHERE world = :world
