-- name: note_pauses
--
-- Notes that somebody pauses or resumes actions: a row for each of those that are not paused yet,
-- or are paused. The transaction holds the lock of lock_limiting.
--
--   $1 number   bigint, random; the rows for further actions have those behind it
--   $2 verb     text
--   $3 author   text
--   $4 reason   text, null: none
--   $5 actions  text[]
--   $6 pause    boolean: or else they are resumed
INSERT INTO stint.changes (number, items, verb, author, action, reason)
SELECT $1::bigint - 1 + named.place, 1, $2::text, $3::text, named.action, $4::text
FROM unnest($5::text[]) WITH ORDINALITY AS named (action, place)
WHERE $6::boolean = ((SELECT limits.paused_at
                      FROM stint.limits
                      WHERE limits.action = named.action) IS NULL)
