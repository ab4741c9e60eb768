-- id: ras_outliers
-- name: Ranks off the common count
-- unit: ranks
-- better: lower
-- scope: job
-- source: metrics.md R7 (at the end of the run; live it needs two polls)
-- sentence: Ranks whose number of completed collectives on a communicator, at the end of what was recorded, is not that of most: groups of equal count that are at most a quarter of the members and ten ranks, as NCCL's RAS lists them.
WITH counts AS (
  SELECT r.comm, r.seq, count(*) AS ranks FROM reached r JOIN communicator c ON c.id = r.comm WHERE c.world = :world AND c.size > 1 GROUP BY r.comm, r.seq
), whole AS (SELECT comm, sum(ranks) AS ranks, max(ranks) AS most FROM counts GROUP BY comm)
SELECT iif((SELECT count(*) FROM whole) = 0, NULL, (SELECT count(DISTINCT r.process) FROM reached r JOIN counts n ON n.comm = r.comm AND n.seq = r.seq
  JOIN whole w ON w.comm = r.comm WHERE n.ranks < w.most AND n.ranks * 4 <= w.ranks AND n.ranks <= 10)) AS value, 'NO_DATA' AS why
