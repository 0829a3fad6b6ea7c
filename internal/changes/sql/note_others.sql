-- name: note_others
--
-- Notes how many others changed with the tasks of note_tasks, in one of its rows.
--
--   $1 number  bigint
--   $2 others  integer
UPDATE stint.changes SET others = $2::integer WHERE changes.number = $1::bigint
