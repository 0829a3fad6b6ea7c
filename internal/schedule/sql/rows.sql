-- name: advance_schedule
--
-- Notes the next occurrence of a schedule that is locked, and what became of those that were due.
--
--   $1 name      text
--   $2 next      timestamptz, null: there is none
--   $3 last      timestamptz, null: there was none
--   $4 last_ids  text[]
--   $5 missed    bigint
--   $6 skipped   bigint
UPDATE stint.schedules
SET next_at = $2::timestamptz, last_at = $3::timestamptz, last_ids = $4::text[],
    missed = $5::bigint, skipped = $6::bigint
WHERE schedules.name = $1::text

-- name: delete_schedules
--
-- Deletes schedules that are locked.
--
--   $1 names  text[]
DELETE FROM stint.schedules WHERE schedules.name = ANY ($1::text[])

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

-- name: ensure_schedules
--
-- Adds the schedules whose names no schedule has, and returns these names.
--
--   $1 names        text[]
--   $2 specs        text[]
--   $3 zones        text[]
--   $4 starts       timestamptz[], null: none
--   $5 ends         timestamptz[], null: none
--   $6 definitions  text[]
--   $7 next         timestamptz[], null: none
INSERT INTO stint.schedules (name, spec, zone, starts_at, ends_at, definition, next_at)
SELECT given.name, given.spec, given.zone, given.starts_at, given.ends_at, given.definition,
       given.next_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[],
            $6::text[], $7::timestamptz[])
    AS given (name, spec, zone, starts_at, ends_at, definition, next_at)
ORDER BY given.name
ON CONFLICT (name) DO NOTHING
RETURNING schedules.name

-- name: find_schedules
--
-- Returns schedules, sorted by name, and what the clock shows.
--
--   $1 names  text[]
SELECT schedules.name, schedules.spec, schedules.zone, schedules.starts_at, schedules.ends_at,
       schedules.definition, schedules.next_at, schedules.last_at, schedules.last_ids,
       schedules.missed, schedules.skipped, schedules.paused_at, schedules.changed_at,
       statement_timestamp() AS now
FROM stint.schedules
WHERE schedules.name = ANY ($1::text[])
ORDER BY schedules.name

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

-- name: lock_schedules
--
-- Locks and returns schedules, sorted by name, and what the clock shows.
--
--   $1 names  text[]
SELECT schedules.name, schedules.spec, schedules.zone, schedules.starts_at, schedules.ends_at,
       schedules.definition, schedules.next_at, schedules.last_at, schedules.last_ids,
       schedules.missed, schedules.skipped, schedules.paused_at, schedules.changed_at,
       statement_timestamp() AS now
FROM stint.schedules
WHERE schedules.name = ANY ($1::text[])
ORDER BY schedules.name
FOR UPDATE

-- name: pause_schedules
--
-- Pauses schedules that are locked. Those that are paused stay so, since the time that they were.
--
--   $1 names  text[]
UPDATE stint.schedules
SET paused_at = coalesce(schedules.paused_at, statement_timestamp()), next_at = NULL
WHERE schedules.name = ANY ($1::text[])

-- name: resume_schedules
--
-- Ends the pauses of schedules that are locked.
--
--   $1 names  text[]
--   $2 next   timestamptz[], null: there is no other occurrence
UPDATE stint.schedules
SET paused_at = NULL, next_at = ($2::timestamptz[])[array_position($1::text[], schedules.name)]
WHERE schedules.name = ANY ($1::text[]) AND schedules.paused_at IS NOT NULL

-- name: schedule_overdue
--
-- Returns a row if some schedule is due.
SELECT true
FROM stint.schedules
WHERE schedules.next_at <= statement_timestamp()
LIMIT 1
