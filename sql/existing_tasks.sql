-- name: existing_tasks
--
-- Which of the IDs are taken: asked when an insert tripped over one, to name them all.
--
--   $1 ids  text[]
SELECT task.id
FROM unnest($1::text[]) AS named (id)
JOIN stint.tasks AS task ON task.id = named.id
ORDER BY task.id
