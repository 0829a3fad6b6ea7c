-- name: get_tasks
--
-- Returns the tasks with these IDs. IDs that no task has are left out.
--
--   $1 ids  bigint[]
SELECT task.id, task.group_name, task.data, task.available, task.owner
FROM unnest($1::bigint[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT task.id, task.group_name, task.data, task.available, task.owner
    FROM stint.taskstore_tasks AS task
    WHERE task.id = named.id
    OFFSET 0 -- a fence: looked up by the index, whatever the statistics
) AS task
