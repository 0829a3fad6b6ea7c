-- name: edges_of
--
-- Returns all edges into and out of tasks, each once.
--
--   $1 keys  bigint[]
SELECT edge.after, edge.run
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.after, edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
) AS edge
UNION
SELECT edge.after, edge.run
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.after, edges.run FROM stint.edges WHERE edges.run = named.key OFFSET 0
) AS edge
