-- name: finish_tasks
--
-- Records tasks that end without their owner's word.
--
--   $1 keys    bigint[]
--   $2 tries   integer[]
--   $3 cause   smallint
--   $4 status  text
INSERT INTO stint.finished (key, tries, cause, status)
SELECT ended.key, ended.tries, $3::smallint, $4::text
FROM unnest($1::bigint[], $2::integer[]) AS ended (key, tries)
