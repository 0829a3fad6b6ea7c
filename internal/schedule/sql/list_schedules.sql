-- name: list_schedules
--
-- Returns the first schedules behind a name, sorted by name, and what the clock shows.
--
--   $1 after  text
--   $2 most   integer
SELECT schedules.name, schedules.spec, schedules.zone, schedules.starts_at, schedules.ends_at,
       schedules.definition, schedules.next_at, schedules.last_at, schedules.last_ids,
       schedules.missed, schedules.skipped, schedules.paused_at, schedules.changed_at,
       statement_timestamp() AS now
FROM stint.schedules
WHERE schedules.name > $1::text
ORDER BY schedules.name
LIMIT $2::integer
