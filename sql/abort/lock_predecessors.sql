-- name: lock_predecessors
--
-- Locks blocked tasks together with their blocked predecessors, in the order of their keys. Ahead
-- of them it locks the predecessors that are owned: a return locks in this order, too. A
-- transaction that replaces a task often lets the new task wait for the same predecessor.
--
--   $1 keys  bigint[]
WITH target AS MATERIALIZED (
    SELECT named.key FROM unnest($1::bigint[]) AS named (key)
    UNION
    SELECT edge.after
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = named.key OFFSET 0
    ) AS edge
)
-- The owned ones come first.
SELECT leased.lo FROM (
    SELECT leased.lo
    FROM stint.leased
    WHERE leased.lo = ANY (ARRAY(
        SELECT span.lo
        FROM target
        CROSS JOIN LATERAL (
            -- include span_of_key: table=leased; key=target.key; columns=leased.lo, leased.hi
        ) AS span
        WHERE span.hi >= target.key
    ))
    ORDER BY leased.lo
    FOR UPDATE
) AS leased
UNION ALL
SELECT blocked.key FROM (
    SELECT blocked.key
    FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(SELECT target.key FROM target))
    ORDER BY blocked.key
    FOR UPDATE
) AS blocked
