-- id: batch_for_transfer
-- name: Batch at which transfers are small
-- unit: samples
-- better: none
-- scope: job
-- source: specification.md G7: b* = (R* T_xfer - alpha_c) / beta_c with R* = 20
-- sentence: Samples of a rank with which computing takes twenty times as long as the exposed transfers of a step, by compute_fixed and compute_per_sample: the threshold below which the verdict does not name transfers. Memory is not looked at; compare with noise_scale, which all ranks together should not exceed.
SELECT max(0, (20 * x.xfer_ns - max(f.fixed_ns, 0)) / iif(f.per_sample_ns > 0, f.per_sample_ns, NULL)) AS value,
       iif(count(*) = 0, 'NO_DATA', coalesce(iif(x.xfer_ns IS NULL, x.why, NULL), 'ZERO_DENOM')) AS why
FROM batch_fit f JOIN mean_transfer x ON x.world = f.world WHERE f.world = :world
