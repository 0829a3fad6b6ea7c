-- name: due_schedule
--
-- Locks and returns the schedule that is due first behind a place, unless somebody else works on
-- it, and what the clock shows.
--
--   $1 at    timestamptz
--   $2 name  text
--   $3 rest  text[]: names that are passed over
SELECT schedules.name, schedules.spec, schedules.zone, schedules.starts_at, schedules.ends_at,
       schedules.definition, schedules.next_at, schedules.last_at, schedules.last_ids,
       schedules.missed, schedules.skipped, schedules.paused_at, schedules.changed_at,
       statement_timestamp() AS now
FROM stint.schedules
WHERE schedules.next_at <= statement_timestamp()
  AND (schedules.next_at, schedules.name) OPERATOR(pg_catalog.>) ($1::timestamptz, $2::text)
  AND schedules.name <> ALL ($3::text[])
ORDER BY schedules.next_at, schedules.name
LIMIT 1
FOR UPDATE SKIP LOCKED
