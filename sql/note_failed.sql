-- name: note_failed
--
-- Notes that what only an aborted task needed has been aborted. If the task has been retried and
-- aborted again meanwhile, it is not settled.
--
--   $1 key          bigint
--   $2 finished_at  timestamptz: when the task ended
UPDATE stint.fail_fast SET settled_at = $2::timestamptz WHERE fail_fast.key = $1::bigint
