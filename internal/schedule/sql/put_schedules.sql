-- name: put_schedules
--
-- Adds schedules, or changes those with the same names. One that occurs as before keeps its next
-- occurrence; another one occurs as given, unless it is paused.
--
--   $1 names        text[]
--   $2 specs        text[]
--   $3 zones        text[]
--   $4 starts       timestamptz[], null: none
--   $5 ends         timestamptz[], null: none
--   $6 definitions  text[]
--   $7 next         timestamptz[], null: none
INSERT INTO stint.schedules AS schedules
    (name, spec, zone, starts_at, ends_at, definition, next_at)
SELECT given.name, given.spec, given.zone, given.starts_at, given.ends_at, given.definition,
       given.next_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[],
            $6::text[], $7::timestamptz[])
    AS given (name, spec, zone, starts_at, ends_at, definition, next_at)
ORDER BY given.name
ON CONFLICT (name) DO UPDATE
SET spec = excluded.spec, zone = excluded.zone, starts_at = excluded.starts_at,
    ends_at = excluded.ends_at, definition = excluded.definition,
    changed_at = statement_timestamp(),
    next_at = CASE
        WHEN schedules.paused_at IS NOT NULL THEN NULL
        WHEN schedules.spec = excluded.spec AND schedules.zone = excluded.zone
             AND schedules.starts_at IS NOT DISTINCT FROM excluded.starts_at
             AND schedules.ends_at IS NOT DISTINCT FROM excluded.ends_at
        THEN schedules.next_at
        ELSE excluded.next_at
    END
