-- name: ensure_schedules
--
-- Adds the schedules whose names no schedule has.
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
