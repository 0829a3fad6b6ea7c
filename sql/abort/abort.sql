-- name: end_tasks
--
-- Puts tasks that were withdrawn from their states into round $2 of settling, to end with cause $3
-- and the status text $4.
--
--   $1 batch   bigint
--   $2 round   integer
--   $3 cause   smallint
--   $4 status  text
--   $5 keys    bigint[]
--   $6 tries   integer[]
--   $7 actors  text[]: the owners, null elements: of tasks that were not owned
INSERT INTO stint.settling (batch, round, key, cause, tries, actor, status)
SELECT $1::bigint, $2::integer, ended.key, $3::smallint, ended.tries, ended.actor, $4::text
FROM unnest($5::bigint[], $6::integer[], $7::text[]) AS ended (key, tries, actor)

-- name: waiting_tasks
--
-- Returns those of the tasks that wait, or waited, for others.
--
--   $1 keys  bigint[]
SELECT named.key
FROM unnest($1::bigint[]) AS named (key)
WHERE (SELECT true FROM stint.edges WHERE edges.run = named.key LIMIT 1)
