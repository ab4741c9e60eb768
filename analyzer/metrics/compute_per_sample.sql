-- id: compute_per_sample
-- name: Computing of a sample
-- unit: ns
-- better: lower
-- scope: job
-- source: specification.md G6: beta_c of T_grad = alpha_c + beta_c b (Pollux)
-- sentence: By how much a rank computes longer in a step for one more sample: slope over the steady steps of each rank, by least squares. Needs steps of different sizes, as the last one of an epoch often is, and ddl_value("samples", n).
SELECT iif(per_sample_ns > 0, per_sample_ns, NULL) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM batch_fit WHERE world = :world
