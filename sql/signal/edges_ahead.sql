-- name: edges_ahead
--
-- Returns all edges that lead on from tasks: to their dependents, from these to theirs, and so on.
-- Edges into tasks that are not blocked are settled and left out. A new edge into one of the tasks
-- closes a cycle if these edges lead to its other end.
--
--   $1 keys  bigint[]
WITH RECURSIVE ahead (after, run) AS (
    SELECT edge.after, edge.run
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.after, edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
    ) AS edge
    WHERE (SELECT true FROM stint.blocked WHERE blocked.key = edge.run)
    UNION
    SELECT edge.after, edge.run
    FROM ahead
    CROSS JOIN LATERAL (
        SELECT edges.after, edges.run FROM stint.edges WHERE edges.after = ahead.run OFFSET 0
    ) AS edge
    WHERE (SELECT true FROM stint.blocked WHERE blocked.key = edge.run)
)
SELECT ahead.after, ahead.run FROM ahead
