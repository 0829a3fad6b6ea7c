-- name: pause_schedules
--
-- Pauses schedules that are locked. Those that are paused stay so, since the time that they were.
--
--   $1 names  text[]
UPDATE stint.schedules
SET paused_at = coalesce(schedules.paused_at, statement_timestamp()), next_at = NULL
WHERE schedules.name = ANY ($1::text[])
