-- name: hand_over
--
-- Returns the edges from tasks that are replaced to blocked ones that the tasks in their place
-- name: the ends of each, the ID of the dependent, and its condition. The new edge gets that, and
-- the old one is ordinary from now on, so that nothing is decided by it when the old task goes; one
-- of several (8) decides nothing by itself.
--
--   $1 after  bigint[]: the tasks that are replaced
--   $2 run    text[]: the IDs of tasks that those in their place name
WITH handed AS MATERIALIZED (
    SELECT edge.tid, named.after, run.key AS run, named.id, edge.accepts, edge.results
    FROM unnest($1::bigint[], $2::text[]) AS named (after, id)
    CROSS JOIN LATERAL (
        SELECT tasks.key FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
    ) AS run
    CROSS JOIN LATERAL (
        SELECT edges.ctid AS tid, edges.accepts, edges.results
        FROM stint.edges
        -- The index edges_after holds -run.
        WHERE edges.after = named.after AND -edges.run = -run.key
        OFFSET 0
    ) AS edge
    WHERE (SELECT true FROM stint.blocked WHERE blocked.key = run.key)
), freed AS (
    UPDATE stint.edges
    SET accepts = NULL, results = NULL
    FROM handed
    WHERE edges.ctid = handed.tid AND handed.accepts & 8 = 0
)
SELECT handed.after, handed.run, handed.id, coalesce(handed.accepts, 0) AS accepts,
       coalesce(handed.results::text, '') AS results
FROM handed
