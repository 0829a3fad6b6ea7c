-- name: group_tasks
--
-- Returns tasks of a group.
--
--   $1 group  text
--   $2 limit  bigint, null: all
--   $3 owned  boolean: also those that are owned
--
-- It goes through the places one by one, since the tasks that are available come first in each: so
-- it does not read those that are owned unless it returns them.
SELECT task.id, task.group_name, task.data, task.available, task.owner
FROM generate_series(0, 63) AS turn (number)
CROSS JOIN LATERAL (
    SELECT task.id, task.group_name, task.data, task.available, task.owner
    FROM stint.taskstore_tasks AS task
    WHERE task.group_name = $1::text AND task.place = turn.number
      AND task.available <= CASE
              WHEN $3::boolean THEN 9223372036854775807
              ELSE floor(date_part('epoch', statement_timestamp()) * 1000)::bigint
          END
    OFFSET 0 -- a fence: see get_tasks
) AS task
LIMIT $2::bigint
