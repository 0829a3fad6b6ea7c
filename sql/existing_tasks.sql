-- name: existing_tasks
--
-- Which of the IDs are taken: asked when an insert tripped over one, to name them all.
--
--   $1 ids  text[]
SELECT task.id
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
) AS task
ORDER BY task.id
