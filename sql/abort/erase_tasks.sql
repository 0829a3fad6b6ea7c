-- name: erase_tasks
--
-- Deletes what drop_definitions leaves of finished tasks. Their edges are settled, and go, too, but
-- for those to tasks that have not ended: settle_tasks knows by them that not all predecessors of
-- such a task were deleted. Edges with a condition stay in any case, for take_signals.
--
--   $1 keys  bigint[], sorted; the tasks must have been split off their spans
WITH decided AS (
    -- A condition that was met counts as met also if its task is opened again: empty results say
    -- so, which no other condition has. What is behind a task that goes, too, is left alone.
    UPDATE stint.edges
    SET accepts = edges.accepts | 7, results = '{}'
    FROM (
        SELECT edge.tid
        FROM unnest($1::bigint[]) AS named (key)
        CROSS JOIN LATERAL (
            SELECT finished.cause, coalesce(finished.result, '') AS result
            FROM stint.finished
            WHERE finished.lo = named.key
            OFFSET 0
        ) AS ended
        CROSS JOIN LATERAL (
            SELECT edges.ctid AS tid, edges.run, edges.accepts, edges.results
            FROM stint.edges
            WHERE edges.after = named.key AND edges.accepts IS NOT NULL
            OFFSET 0
        ) AS edge
        WHERE
            -- include condition_met: edge=edge; cause=ended.cause; result=ended.result
          AND ($1::bigint[])[width_bucket(edge.run, $1::bigint[])] IS DISTINCT FROM edge.run
    ) AS met
    WHERE edges.ctid = met.tid
), outgoing AS (
    DELETE FROM stint.edges
    USING (
        SELECT edge.tid
        FROM unnest($1::bigint[]) AS named (key)
        CROSS JOIN LATERAL (
            SELECT edges.ctid AS tid, edges.run
            FROM stint.edges
            WHERE edges.after = named.key AND edges.accepts IS NULL
            OFFSET 0
        ) AS edge
        WHERE (SELECT true FROM stint.tasks WHERE tasks.key = edge.run) IS NULL
           OR (SELECT ended.hi >= edge.run
               FROM stint.finished AS ended
               WHERE ended.lo BETWEEN edge.run >> 10 << 10 AND edge.run
               ORDER BY ended.lo DESC
               LIMIT 1)
    ) AS settled
    WHERE edges.ctid = settled.tid
), incoming AS (
    DELETE FROM stint.edges WHERE edges.run = ANY ($1::bigint[])
), joined AS (
    DELETE FROM stint.joined WHERE joined.key = ANY ($1::bigint[])
)
DELETE FROM stint.finished WHERE finished.lo = ANY ($1::bigint[])
