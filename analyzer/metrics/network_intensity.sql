-- id: network_intensity
-- name: Arithmetic per byte on the wire
-- unit: FLOP/byte
-- better: higher
-- scope: step
-- source: specification.md C9
-- sentence: Arithmetic of the model in a step (ddl_value "model_flops") over the bytes that the collectives of that step put on the wire, S times the bus factor of each, all ranks together. For the steps whose events were kept. Over all of these together where the median one puts next to none there.
SELECT s.step, iif(s.comm_ns IS NOT NULL AND r.ranks = w.ranks, iif(coalesce(b.bytes, 0) = 0 AND r.total > 0, 9e999, r.total / nullif(b.bytes, 0)), NULL) AS value,
       CASE WHEN r.ranks IS NULL OR s.comm_ns IS NULL THEN 'NO_DATA' WHEN r.ranks < w.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why,
       iif(s.comm_ns IS NOT NULL AND r.ranks = w.ranks, r.total, NULL) AS part, coalesce(b.bytes, 0) AS whole
FROM steady_step s JOIN (SELECT max(world_size) AS ranks FROM counted WHERE world = :world) w
     LEFT JOIN reported r ON r.world = s.world AND r.name = 'model_flops' AND r.step = s.step LEFT JOIN wire b ON b.world = s.world AND b.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
