-- name: insert_fail_fast
--
-- Notes tasks that have what only they need aborted when they are. It is a statement of its own, so
-- that the inserts of all other tasks cost nothing more.
--
--   $1 keys  bigint[]: of the tasks
INSERT INTO stint.fail_fast (key)
SELECT added.key
FROM unnest($1::bigint[]) AS added (key)
