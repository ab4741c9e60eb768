-- id: goodput
-- name: Goodput (Pollux)
-- unit: samples/s
-- better: higher
-- scope: step
-- source: specification.md G5, M0: the batch of one rank
-- sentence: Throughput times statistical efficiency: samples per second that count as much as those of a batch of one rank would. Not the share of time that a job is productive (productive_time).
SELECT s.step, iif(r.ranks = w.ranks, r.total * 1e9 / nullif(s.longest_ns, 0) * (n.scale + n.own_samples) / (n.scale + r.total), NULL) AS value,
       CASE WHEN n.scale IS NULL THEN n.why WHEN r.ranks IS NULL THEN 'NO_DATA' WHEN r.ranks < w.ranks THEN 'PARTIAL_RANKS' ELSE 'ZERO_DENOM' END AS why,
       iif(n.scale IS NOT NULL AND (r.ranks = w.ranks OR r.ranks IS NULL), coalesce(r.total, 0) * 1e9 * (n.scale + n.own_samples) / (n.scale + coalesce(r.total, 0)), NULL) AS part,
       s.longest_ns AS whole
FROM steady_step s JOIN noise n ON n.world = s.world JOIN (SELECT max(world_size) AS ranks FROM counted WHERE world = :world) w
     LEFT JOIN reported r ON r.world = s.world AND r.name = 'samples' AND r.step = s.step
WHERE s.world = :world AND s.annotated ORDER BY s.step
