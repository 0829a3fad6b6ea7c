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

-- name: reckoned_schedules
--
-- Returns when the first schedules behind a name occur that are not paused and are not due, as far
-- as one has to know to reckon it again; whether something of them lies in the future that cannot,
-- since the clock was ahead; and what the clock shows.
--
--   $1 after  text
--   $2 most   integer
SELECT schedules.name, schedules.spec, schedules.zone, schedules.starts_at, schedules.ends_at,
       schedules.next_at,
       coalesce(greatest(schedules.last_at, schedules.changed_at)
                > statement_timestamp() + interval '1 s', false) AS ahead,
       statement_timestamp() AS now
FROM stint.schedules
WHERE schedules.name > $1::text AND schedules.paused_at IS NULL
  AND (schedules.next_at > statement_timestamp() OR schedules.next_at IS NULL)
ORDER BY schedules.name
LIMIT $2::integer
