-- id: productive_time
-- name: Productive time (availability goodput)
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md G9
-- sentence: Time that the rank with the most of it spent in steps, first ones included, over the time from the first to the last sign of life of the job: the rest is start, checkpoints, evaluation and end. Not the goodput of Pollux.
WITH own AS (
  SELECT p.rank, iif(p.rank IS NULL, p.id, 0) AS process, s.start_ns AS begin_ns, s.start_ns + s.duration_ns AS end_ns
  FROM step s JOIN process p ON p.id = s.process WHERE p.world = :world AND s.duration_ns IS NOT NULL
), behind AS (  -- the steps of two threads may overlap
  SELECT rank, process, end_ns - max(begin_ns, coalesce(max(end_ns) OVER (
    PARTITION BY rank, process ORDER BY begin_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), begin_ns)) AS new_ns FROM own
), sums AS (
  SELECT total(max(new_ns, 0)) AS steps_ns FROM behind GROUP BY rank, process
)
SELECT (SELECT max(steps_ns) FROM sums) / nullif((SELECT max(end_ns) - min(start_ns) FROM process WHERE world = :world), 0) AS value,
       iif(EXISTS (SELECT 1 FROM sums), 'ZERO_DENOM', 'NO_DATA') AS why
