-- name: waiting_tasks
--
-- Returns those of the tasks that wait, or waited, for others.
--
--   $1 keys  bigint[]
SELECT named.key
FROM unnest($1::bigint[]) AS named (key)
WHERE (SELECT true FROM stint.edges WHERE edges.run = named.key LIMIT 1)
