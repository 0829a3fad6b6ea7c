-- name: existing_tasks
--
-- Returns those of the IDs that are taken, with the actions of the tasks. An insert that failed
-- because of one of them asks, to name them all; and so does a service whose caller may see only
-- some actions.
--
--   $1 ids  text[]
SELECT task.id, task.action
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id, tasks.action FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
) AS task
ORDER BY task.id
