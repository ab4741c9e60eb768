-- id: step_time_change
-- name: Last change of the step time
-- unit: ratio
-- better: lower
-- scope: job
-- source: specification.md R4 (Greyhound)
-- sentence: Mean step time after the last such change over that before it; 1: there was none. Needs twenty steady steps.
WITH n AS (SELECT count(*) AS steps FROM steady_step WHERE world = :world AND annotated)
SELECT iif(n.steps < 20, NULL, coalesce((SELECT after_ns / before_ns FROM step_change WHERE world = :world ORDER BY step DESC LIMIT 1), 1)) AS value, 'NO_DATA' AS why FROM n
