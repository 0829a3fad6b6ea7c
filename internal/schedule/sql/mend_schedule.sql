-- name: mend_schedule
--
-- Makes a schedule occur earlier, unless it was changed since it was looked at.
--
--   $1 name  text
--   $2 seen  timestamptz, null: there was none. The next occurrence when it was looked at
--   $3 next  timestamptz
UPDATE stint.schedules
SET next_at = $3::timestamptz
WHERE schedules.name = $1::text AND schedules.next_at IS NOT DISTINCT FROM $2::timestamptz
  AND schedules.paused_at IS NULL
