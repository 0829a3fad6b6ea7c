-- name: note_weights
--
-- Notes that somebody sets weights of keys of an action, if some of them are others than before.
-- The transaction holds the lock of lock_limiting.
--
--   $1 number   bigint, random
--   $2 verb     text
--   $3 author   text
--   $4 reason   text, null: none
--   $5 names    integer: how many keys the row names
--   $6 action   text
--   $7 keys     text[], sorted
--   $8 weights  integer[]
INSERT INTO stint.changes (number, items, verb, author, action, reason, names, detail)
SELECT $1::bigint, count(*), $2::text, $3::text, $6::text, $4::text,
       (array_agg(named.key))[1:$5::integer],
       array_to_string(
           (array_agg(named.before || ' → ' || named.weight))[1:$5::integer], ', ')
FROM (
    SELECT given.key, given.weight,
           coalesce((SELECT limited_keys.weight
                     FROM stint.limited_keys
                     WHERE limited_keys.action = $6::text
                       AND limited_keys.limit_key = given.key), 1) AS before
    FROM unnest($7::text[], $8::integer[]) AS given (key, weight)
) AS named
WHERE named.before <> named.weight
HAVING count(*) > 0
