-- name: cut_edges
--
-- Deletes edges.
--
--   $1 after  bigint[]
--   $2 run    bigint[]
DELETE FROM stint.edges
USING (
    SELECT edge.tid
    FROM unnest($1::bigint[], $2::bigint[]) AS named (after, run)
    CROSS JOIN LATERAL (
        SELECT edges.ctid AS tid
        FROM stint.edges
        -- The index edges_after holds -run.
        WHERE edges.after = named.after AND -edges.run = -named.run
        OFFSET 0
    ) AS edge
) AS cut
WHERE edges.ctid = cut.tid
