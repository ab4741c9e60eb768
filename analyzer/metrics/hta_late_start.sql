-- id: hta_late_start
-- name: Begin of the last long collective in the step (HTA)
-- unit: ratio
-- better: lower
-- scope: rank
-- source: specification.md R3 (HTA); kernels of collectives by their class, not only those named ncclKernel
-- sentence: When in the step this rank begins the last collective kernel that takes a hundredth of it or longer, mean over the steady steps, of the stream and kernel for which ranks differ most. HTA calls the ranks with the largest values potential stragglers, also in a healthy job.
WITH long AS (
  SELECT p.rank, g.step, g.stream, g.name, max((g.start_ns - s.start_ns) * 1.0 / s.duration_ns) AS begin FROM gpu_event g JOIN process p ON p.id = g.process AND p.world = :world AND p.rank IS NOT NULL
  JOIN gpu_name n ON n.id = g.name JOIN steady_number y ON y.world = p.world AND y.step = g.step JOIN step s ON s.process = g.process AND s.step = g.step AND s.measured
  WHERE g.kind = 1 AND (n.class = 'communication' OR g.comm IS NOT NULL) AND g.duration_ns * 100 >= s.duration_ns AND s.duration_ns > 0 GROUP BY p.rank, g.step, g.stream, g.name
), typical AS (SELECT rank, stream, name, avg(begin) AS begin FROM long GROUP BY rank, stream, name), widest AS (
  SELECT stream, name FROM typical GROUP BY stream, name HAVING count(*) = (SELECT count(DISTINCT rank) FROM typical)
  ORDER BY avg(begin * begin) - avg(begin) * avg(begin) DESC, stream, name LIMIT 1
)
SELECT r.rank, t.begin AS value, iif(EXISTS (SELECT 1 FROM steady_gpu WHERE world = :world), 'NO_DATA', 'NOT_APPLICABLE') AS why
FROM steady_rank r LEFT JOIN (SELECT typical.rank, begin FROM typical JOIN widest ON widest.stream IS typical.stream AND widest.name = typical.name) t ON t.rank = r.rank
WHERE r.world = :world ORDER BY r.rank
