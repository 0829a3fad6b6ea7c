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
