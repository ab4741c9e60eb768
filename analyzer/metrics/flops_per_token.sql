-- id: flops_per_token
-- name: Arithmetic of a token, dense transformer
-- unit: FLOP
-- better: none
-- scope: job
-- source: specification.md F2 (PaLM, appendix B)
-- sentence: 6 N + 12 L H Q T of a dense transformer, forward and backward, from ddl_value("parameters", N), ("layers", L), ("hidden_size", H Q) and ("sequence_length", T). Attention counts in full, as PaLM does: a causal mask needs half of the second term. For model_flops: times the tokens of the step.
SELECT 6 * n + 12 * layers * hidden * tokens AS value, 'NO_DATA' AS why FROM (
  SELECT max(iif(v.name = 'parameters', v.value, NULL)) AS n, max(iif(v.name = 'layers', v.value, NULL)) AS layers, max(iif(v.name = 'hidden_size', v.value, NULL)) AS hidden,
         max(iif(v.name = 'sequence_length', v.value, NULL)) AS tokens FROM value v JOIN process p ON p.id = v.process WHERE p.world = :world AND v.name IN ('parameters', 'layers', 'hidden_size', 'sequence_length')
)
