-- name: note_others
--
-- Notes how many others changed with tasks of which it was not known when note_tasks ran.
--
--   $1 number  bigint
--   $2 others  integer
UPDATE stint.changes SET others = $2::integer WHERE changes.number = $1::bigint
