-- name: put_back
--
-- Undoes set_aside for the tasks with IDs $1 and the same $2. One that was ready is scheduled for a
-- time that has come, which is as good.
--
--   $1 ids  text[]
--   $2 by   interval
UPDATE stint.scheduled
SET not_before = scheduled.not_before - $2::interval
FROM stint.tasks
WHERE tasks.id = ANY ($1::text[]) AND scheduled.key = tasks.key
