-- name: task_keys
--
-- Returns keys and IDs of the tasks with these IDs, in no particular order. IDs that no task has
-- are left out.
--
--   $1 ids  text[]
SELECT task.key, task.id
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
) AS task
