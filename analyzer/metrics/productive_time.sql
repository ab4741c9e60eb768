-- id: productive_time
-- name: Productive time (availability goodput)
-- unit: ratio
-- better: higher
-- scope: job
-- source: specification.md G9
-- sentence: Time of all steps, first ones included, over the time from the first to the last sign of life of the job: the rest is start, checkpoints, evaluation and end. Not the goodput of Pollux.
WITH steps AS (
  SELECT max(s.duration_ns) AS longest_ns FROM step s JOIN process p ON p.id = s.process WHERE p.world = :world AND s.duration_ns IS NOT NULL GROUP BY s.step
)
SELECT (SELECT sum(longest_ns) FROM steps) * 1.0 / nullif((SELECT max(end_ns) - min(start_ns) FROM process WHERE world = :world), 0) AS value,
       iif(EXISTS (SELECT 1 FROM steps), 'ZERO_DENOM', 'NO_DATA') AS why
