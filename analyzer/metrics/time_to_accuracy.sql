-- id: time_to_accuracy
-- name: Time to accuracy
-- unit: ns
-- better: lower
-- scope: job
-- source: specification.md G8 (of one run)
-- sentence: From the begin of the job to the first ddl_value("accuracy", x) that reaches ddl_value("target_accuracy", x); n/a(NOT_APPLICABLE) if none did. MLPerf drops the fastest and the slowest of several runs and takes the mean of the rest.
WITH told AS (SELECT v.name, v.time_ns, v.value FROM value v JOIN process p ON p.id = v.process WHERE p.world = :world AND v.name IN ('accuracy', 'target_accuracy') AND v.value IS NOT NULL)
SELECT (SELECT min(time_ns) FROM told WHERE name = 'accuracy' AND value >= (SELECT max(value) FROM told WHERE name = 'target_accuracy')) - (SELECT min(start_ns) FROM process WHERE world = :world) AS value,
       iif((SELECT count(DISTINCT name) FROM told) = 2, 'NOT_APPLICABLE', 'NO_DATA') AS why
