-- id: gradient_square
-- name: Squared norm of the true gradient
-- unit: 1
-- better: none
-- scope: job
-- source: specification.md G1
-- sentence: Estimate without bias of the squared norm of the gradient that an endless batch would have, from the norms of the ranks' own gradients and of the reduced one. Not above zero: noise drowns it.
SELECT square AS value, why FROM noise WHERE world = :world
