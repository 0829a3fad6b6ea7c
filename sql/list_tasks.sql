-- name: list_tasks
--
-- The tasks that pass a filter, in the order of their IDs. In the form of get_tasks, but without
-- bodies and results.
--
--   $1 from     text, the least ID, or null
--   $2 after    text, the ID that the answer begins after, or null
--   $3 before   text, the ID that the answer ends before, or null
--   $4 actions  text[], or null: all
--   $5 states   smallint[], or null: all
--   $6 actor    text, or null: all
--   $7 min_age  interval, or null
--   $8 max_age  interval, or null
--   $9 tasks    integer
--
-- Runs along tasks_id_key and stops at $9, so what a rare state costs is a walk over the IDs.
SELECT task.id, task.action, NULL::bytea AS body, task.priority, task.max_tries, task.deadline,
       task.on_abort, task.post_result, task.inserted_at, task.state, task.tries, task.actor,
       task.until, task.owned_at, task.status, task.progress, NULL::bytea AS result
FROM stint.task_states AS task
WHERE task.id >= coalesce($1::text, '')
  AND task.id > coalesce($2::text, '')
  AND ($3::text IS NULL OR task.id < $3::text)
  AND ($4::text[] IS NULL OR task.action = ANY ($4::text[]))
  AND ($5::smallint[] IS NULL OR task.state = ANY ($5::smallint[]))
  AND ($6::text IS NULL OR task.actor = $6::text)
  AND ($7::interval IS NULL OR task.inserted_at <= statement_timestamp() - $7::interval)
  AND ($8::interval IS NULL OR task.inserted_at >= statement_timestamp() - $8::interval)
ORDER BY task.id
LIMIT $9::integer
