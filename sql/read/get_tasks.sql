-- name: get_tasks
--
-- Returns everything that the store knows of the tasks with these IDs, with how many tasks each
-- waits or waited for, and how many of these have yet to signal. IDs that no task has are left out.
--
--   $1 ids  text[]
SELECT
       -- include task_columns: body=task.body; status=task.status; result=task.result
       , task.key,
       -- include dependencies: key=task.key
       ,
       coalesce((SELECT blocked.missing
                 FROM stint.blocked
                 WHERE blocked.key = task.key), 0) AS missing
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.id = named.id OFFSET 0
) AS task
