-- id: compute_fixed
-- name: Computing without samples
-- unit: ns
-- better: lower
-- scope: job
-- source: specification.md G6: alpha_c of T_grad = alpha_c + beta_c b (Pollux), not below 0
-- sentence: Computing of a rank in a step that does not depend on the number of samples: where the line of compute_per_sample meets the axis, or 0 if that is below.
SELECT iif(per_sample_ns > 0, max(fixed_ns, 0), NULL) AS value, iif(count(*) = 0, 'NO_DATA', 'ZERO_DENOM') AS why FROM batch_fit WHERE world = :world
