-- name: delete_schedules
--
-- Deletes schedules that are locked.
--
--   $1 names  text[]
DELETE FROM stint.schedules WHERE schedules.name = ANY ($1::text[])
