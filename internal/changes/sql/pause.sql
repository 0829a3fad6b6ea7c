-- name: note_key_pauses
--
-- Notes that somebody pauses or resumes keys of an action, if some of them are not paused yet, or
-- are paused. The transaction holds the lock of lock_limiting.
--
--   $1 number  bigint, random
--   $2 verb    text
--   $3 author  text
--   $4 reason  text, null: none
--   $5 names   integer: how many keys the row names
--   $6 action  text
--   $7 keys    text[], sorted
--   $8 pause   boolean: or else they are resumed
INSERT INTO stint.changes (number, items, verb, author, action, reason, names)
SELECT $1::bigint, count(*), $2::text, $3::text, $6::text, $4::text,
       (array_agg(named.key))[1:$5::integer]
FROM unnest($7::text[]) AS named (key)
WHERE $8::boolean = ((SELECT limited_keys.paused_at
                      FROM stint.limited_keys
                      WHERE limited_keys.action = $6::text
                        AND limited_keys.limit_key = named.key) IS NULL)
HAVING count(*) > 0

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
