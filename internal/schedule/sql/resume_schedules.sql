-- name: resume_schedules
--
-- Ends the pauses of schedules that are locked.
--
--   $1 names  text[]
--   $2 next   timestamptz[], null: there is no other occurrence
UPDATE stint.schedules
SET paused_at = NULL, next_at = ($2::timestamptz[])[array_position($1::text[], schedules.name)]
WHERE schedules.name = ANY ($1::text[]) AND schedules.paused_at IS NOT NULL
