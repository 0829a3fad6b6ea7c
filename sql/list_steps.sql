-- name: list_steps
--
-- Returns the recorded steps of a task, in the order in which they were recorded, with how long ago
-- that was.
--
--   $1 key  bigint
SELECT steps.name, steps.result, steps.recorded_at,
       greatest(statement_timestamp() - steps.recorded_at, '0'::interval) AS ago
FROM stint.steps
WHERE steps.key = $1::bigint
ORDER BY steps.recorded_at, steps.name
