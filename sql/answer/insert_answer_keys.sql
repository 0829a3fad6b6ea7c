-- name: insert_answer_keys
--
-- Keeps the hashes of the keys by which external tasks can be answered. It is a statement of its
-- own, so that the inserts of all other tasks cost nothing more.
--
--   $1 keys    bigint[]: of the tasks
--   $2 hashes  bytea[]
INSERT INTO stint.answer_keys (key, hash)
SELECT added.key, added.hash
FROM unnest($1::bigint[], $2::bytea[]) AS added (key, hash)
