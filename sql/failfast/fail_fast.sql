-- name: hold_failed
--
-- Makes this transaction the one that aborts what only an aborted task needs. It returns nothing if
-- another one is at it, or it is settled: several maintainers find the task at once.
--
--   $1 key          bigint
--   $2 finished_at  timestamptz: when the task ended
SELECT true AS held
FROM stint.fail_fast
WHERE fail_fast.key = $1::bigint
  AND (fail_fast.settled_at IS DISTINCT FROM $2::timestamptz OR fail_fast.shared)
FOR UPDATE SKIP LOCKED

-- name: note_failed
--
-- Notes that what only an aborted task needed has been aborted, and whether it waits for something
-- that others need. If the task has been retried and aborted again meanwhile, it is not settled.
--
--   $1 key          bigint
--   $2 finished_at  timestamptz: when the task ended
--   $3 shared       boolean
--
-- A walk that finds everything as it was writes nothing.
UPDATE stint.fail_fast
SET settled_at = $2::timestamptz, shared = $3::boolean
WHERE fail_fast.key = $1::bigint
  AND (fail_fast.settled_at IS DISTINCT FROM $2::timestamptz OR fail_fast.shared <> $3::boolean)
