-- id: step_time_changes
-- name: Changes of the step time
-- unit: changes
-- better: none
-- scope: job
-- source: specification.md R4 (Greyhound)
-- sentence: How often the time of a step changed by more than a tenth and stayed so, for ten steps at least: change points with a probability above 0.8. Needs twenty steady steps.
WITH n AS (SELECT count(*) AS steps FROM steady_step WHERE world = :world AND annotated)
SELECT iif(n.steps < 20, NULL, (SELECT count(*) FROM step_change WHERE world = :world)) AS value, 'NO_DATA' AS why FROM n
