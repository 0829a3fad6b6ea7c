-- name: carve_ready
--
-- Cuts the ready tasks with these keys out of their spans, so that each is a span of its own and
-- can be taken away without its neighbours.
--
--   $1 keys  bigint[], sorted
--
-- Waits for an owner that is taking the span at this moment; the span is then gone, and what became
-- of the task is for the caller's next statement to see. Spans are locked in the order of lo. The
-- pieces are made from the deleted row: its lo must be free before the first piece takes it.
WITH cut AS MATERIALIZED (
    SELECT found.lo, array_agg(DISTINCT named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS found
    WHERE found.lo < found.hi AND found.hi >= named.key
    GROUP BY found.lo
    ORDER BY found.lo
), locked AS MATERIALIZED (
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT ready.lo FROM stint.ready WHERE ready.lo = cut.lo FOR UPDATE
    ) AS ready
), gone AS (
    DELETE FROM stint.ready
    USING (
        SELECT locked.*, ready.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT ready.ctid AS tid FROM stint.ready WHERE ready.lo = locked.lo OFFSET 0
        ) AS ready
    ) AS span
    WHERE ready.ctid = span.tid
    RETURNING ready.*, span.keys
)
INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted)
SELECT gone.position, piece.lo, piece.hi, gone.action, gone.priority, gone.tries, gone.completed,
       gone.aborted
FROM gone
CROSS JOIN LATERAL (
    SELECT named.key AS lo, named.key AS hi
    FROM unnest(gone.keys) AS named (key)
    UNION ALL
    SELECT coalesce(lag(border.key) OVER (ORDER BY border.key) + 1, gone.lo), border.key - 1
    FROM (
        SELECT named.key FROM unnest(gone.keys) AS named (key)
        UNION ALL
        SELECT gone.hi + 1
    ) AS border (key)
) AS piece
WHERE piece.lo <= piece.hi
