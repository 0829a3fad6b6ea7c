-- name: task_keys
--
-- The keys of the tasks with these IDs, in no particular order; unknown ones are left out.
--
--   $1 ids  text[]
SELECT task.key, task.id
FROM unnest($1::text[]) AS named (id)
JOIN stint.tasks AS task ON task.id = named.id
