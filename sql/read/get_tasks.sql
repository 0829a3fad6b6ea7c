-- name: get_tasks
--
-- Returns everything that the store knows of the tasks with these IDs. IDs that no task has are
-- left out.
--
--   $1 ids  text[]
SELECT
       -- include task_columns: body=task.body; result=task.result
       , task.key
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.id = named.id OFFSET 0
) AS task
