-- name: finish_task
--
-- Returns a task in the caller's transaction.
--
--   $1 id      text
--   $2 token   uuid
--   $3 code    text
--   $4 status  text
--   $5 spent   bigint, or null
SELECT "stint".finish_task($1::text, $2::uuid, $3::text, $4::text,
                           result => CASE WHEN $3::text = 'completed' THEN 'yes' END,
                           spent => $5::bigint)
