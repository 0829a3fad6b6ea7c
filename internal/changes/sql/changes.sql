-- name: note_change
--
-- Notes a change of schedules.
--
--   $1 number  bigint, random
--   $2 verb    text
--   $3 author  text
--   $4 reason  text, null: none
--   $5 items   integer: how many were changed
--   $6 names   text[]: the first of them
--   $7 detail  text, null: none
INSERT INTO stint.changes (number, items, verb, author, reason, names, detail)
VALUES ($1::bigint, $5::integer, $2::text, $3::text, $4::text, $6::text[], $7::text)

-- name: note_others
--
-- Notes how many others changed with the tasks of note_tasks, in one of its rows.
--
--   $1 number  bigint
--   $2 others  integer
UPDATE stint.changes SET others = $2::integer WHERE changes.number = $1::bigint
