-- name: task_bytes
--
-- Returns how many bytes the bodies, the results and the texts of the tasks with these IDs have
-- together. A task that is named twice counts twice. No value is read for that: its length is
-- beside the pointer to it.
--
--   $1 ids  text[]
SELECT coalesce(sum(
           coalesce(octet_length(task.body), 0)::bigint
               + coalesce(octet_length(task.result), 0) + coalesce(octet_length(task.status), 0)
       ), 0)::bigint
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT task_states.body, task_states.result, task_states.status
    FROM stint.task_states
    WHERE task_states.id = named.id
    OFFSET 0
) AS task
