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
