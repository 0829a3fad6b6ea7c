-- name: reserve_ids
--
-- Reserves a million IDs, and sets the sequence to the first of them. If somebody else has done so
-- meanwhile, the statement does nothing. It runs after wait_for_disk, so that the IDs are reserved
-- on disk before anybody sees that they are.
--
--   $1 upto  bigint: the last ID reserved so far, as a statement that found too few returned it
--
-- Locks the row of taskstore_reserved until the commit. IDs over upto that the sequence has given
-- out were not used, so they are given out again.
UPDATE stint.taskstore_reserved AS reserved
SET upto = reserved.upto + 1000000
WHERE reserved.single AND reserved.upto = $1::bigint
RETURNING setval('stint.taskstore_ids', $1::bigint + 1, false)
