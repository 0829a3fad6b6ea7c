-- name: task_ids
--
-- Returns keys and IDs of the tasks with these keys, in no particular order.
--
--   $1 keys  bigint[]
SELECT tasks.key, tasks.id FROM stint.tasks WHERE tasks.key = ANY ($1::bigint[])
