-- name: explain_steps
--
-- Returns the recorded steps of a task, without their results, in the order in which they were
-- recorded.
--
--   $1 id  text
SELECT steps.name, steps.recorded_at, octet_length(steps.result) AS bytes
FROM (SELECT tasks.key FROM stint.tasks WHERE tasks.id = $1::text OFFSET 0) AS task
CROSS JOIN LATERAL (
    SELECT steps.name, steps.recorded_at, steps.result
    FROM stint.steps
    WHERE steps.key = task.key
    OFFSET 0
) AS steps
ORDER BY steps.recorded_at, steps.name

-- name: list_steps
--
-- Returns the recorded steps of tasks, of each in the order in which they were recorded, with how
-- long ago that was.
--
--   $1 keys  bigint[]
SELECT steps.key, steps.name, steps.result, steps.recorded_at,
       greatest(statement_timestamp() - steps.recorded_at, '0'::interval) AS ago
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT steps.* FROM stint.steps WHERE steps.key = named.key OFFSET 0
) AS steps
ORDER BY steps.recorded_at, steps.name
