-- name: edges_of
--
-- Returns all edges into and out of tasks, each once, with their conditions.
--
--   $1 keys  bigint[], sorted
SELECT edge.after, edge.run, coalesce(edge.accepts, 0) AS accepts,
       coalesce(edge.results::text, '') AS results
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.* FROM stint.edges WHERE edges.after = named.key OFFSET 0
) AS edge
UNION ALL
SELECT edge.after, edge.run, coalesce(edge.accepts, 0), coalesce(edge.results::text, '')
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT edges.* FROM stint.edges WHERE edges.run = named.key OFFSET 0
) AS edge
-- The edges from one of the tasks are above. A binary search: = ANY would go through all keys.
WHERE ($1::bigint[])[width_bucket(edge.after, $1::bigint[])] IS DISTINCT FROM edge.after
