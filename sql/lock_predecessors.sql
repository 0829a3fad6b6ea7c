-- name: lock_predecessors
--
-- Locks blocked tasks together with those of their predecessors that are blocked, in the order of
-- their keys: a transaction that replaces a task often goes on to let the new one wait for a
-- predecessor, and that one's end, which comes from the other side, locks both in this order too.
--
--   $1 keys  bigint[]
SELECT blocked.key
FROM (
    SELECT named.key FROM unnest($1::bigint[]) AS named (key)
    UNION
    SELECT edge.after
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = named.key OFFSET 0
    ) AS edge
    ORDER BY 1
) AS target (key)
CROSS JOIN LATERAL (
    SELECT blocked.key FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
) AS blocked
