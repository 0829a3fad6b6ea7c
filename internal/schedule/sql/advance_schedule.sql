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
