-- name: edges_of
--
-- Returns all edges into and out of tasks, each once.
--
--   $1 keys  bigint[], sorted
SELECT edge.after, edge.run
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.after, edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
) AS edge
UNION ALL
SELECT edge.after, edge.run
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.after, edges.run FROM stint.edges WHERE edges.run = named.key OFFSET 0
) AS edge
-- The edges from one of the tasks are above. A binary search: = ANY would go through all keys.
WHERE ($1::bigint[])[width_bucket(edge.after, $1::bigint[])] IS DISTINCT FROM edge.after
