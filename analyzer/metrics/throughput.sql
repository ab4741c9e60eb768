-- id: throughput
-- name: Throughput
-- unit: samples/s
-- better: higher
-- scope: step
-- source: specification.md S1
-- sentence: Samples per second: all ranks' ddl_value("samples", n), summed over the steps, over the time of the slowest rank in each. Percentiles are those of single steps.
SELECT s.step, iif(r.ranks = w.ranks, r.total * 1e9 / nullif(s.longest_ns, 0), NULL) AS value,
       CASE WHEN r.ranks IS NULL THEN 'NO_DATA' WHEN r.ranks < w.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why,
       iif(r.ranks = w.ranks OR r.ranks IS NULL, coalesce(r.total, 0) * 1e9, NULL) AS part, s.longest_ns AS whole
FROM steady_step s JOIN (SELECT max(world_size) AS ranks FROM counted WHERE world = :world) w LEFT JOIN reported r ON r.world = s.world AND r.name = 'samples' AND r.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
