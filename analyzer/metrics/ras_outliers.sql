-- id: ras_outliers
-- name: Ranks off the common count
-- unit: ranks
-- better: lower
-- scope: job
-- source: specification.md R7 (at the end of the run; live it needs two polls)
-- sentence: Ranks whose number of completed collectives on a communicator, at the end of the recording, differs from that of most: groups of equal count that are at most a quarter of the members and ten ranks, as NCCL's RAS lists them.
WITH member AS (  -- of which something was recorded; one that completed none is at 0
  SELECT m.communicator AS comm, c.size, m.rank, coalesce(max(r.seq), 0) AS seq FROM communicator c JOIN communicator_member m ON m.communicator = c.id
  JOIN process p ON p.world = c.world AND p.rank = m.rank LEFT JOIN reached r ON r.comm = c.id AND r.process = p.id
  WHERE c.world = :world AND c.size > 1 AND c.id IN (SELECT comm FROM reached) GROUP BY m.communicator, m.rank
), counts AS (SELECT comm, seq, max(size) AS size, count(*) AS ranks FROM member GROUP BY comm, seq), whole AS (SELECT comm, max(ranks) AS most FROM counts GROUP BY comm)
SELECT iif(EXISTS (SELECT 1 FROM member), (SELECT count(DISTINCT m.rank) FROM member m JOIN counts n ON n.comm = m.comm AND n.seq = m.seq JOIN whole w ON w.comm = m.comm
  WHERE n.ranks < w.most AND n.ranks * 4 <= n.size AND n.ranks <= 10), NULL) AS value, 'NO_DATA' AS why
