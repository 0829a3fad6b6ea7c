-- name: existing_tasks
--
-- Returns those of the IDs that are taken. An insert that failed because of one of them asks, to
-- name them all.
--
--   $1 ids  text[]
SELECT task.id
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
) AS task
ORDER BY task.id
