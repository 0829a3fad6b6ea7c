-- name: get_tasks
--
-- Returns everything that the store knows of the tasks with these IDs. IDs that no task has are
-- left out.
--
--   $1 ids  text[]
SELECT task.id, task.action, task.body, task.priority, task.max_tries, task.deadline,
       task.on_abort, task.post_result, task.inserted_at, task.state, task.tries, task.actor,
       task.until, task.owned_at, task.status, task.progress, task.result, task.limit_key,
       task.headers::text, task.key
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.id = named.id OFFSET 0
) AS task
