-- name: split_ready
--
-- Cuts the ready tasks with these keys out of their spans, so that each is a span of its own and
-- can be taken away without its neighbours. What became of the tasks meanwhile is for the caller's
-- next statement to see.
--
--   $1 keys  bigint[], sorted
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too. The span of a key is the last that
    -- begins in the key's block of 1,024, at the key or ahead of it.
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
    -- Waits for an owner that is taking the span at this moment; the span is then gone. Spans are
    -- locked in the order of lo.
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT ready.lo FROM stint.ready WHERE ready.lo = cut.lo FOR UPDATE
    ) AS ready
), gone AS (
    -- LATERAL with OFFSET 0 is a fence, as in return_tasks. The pieces are made from the deleted
    -- row, since its lo must be free before the first piece takes it.
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
-- The pieces keep the position, and with it their place in the queue, or that they are parked.
INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted, limit_key)
SELECT gone.position, piece.lo, piece.hi, gone.action, gone.priority, gone.tries, gone.completed,
       gone.aborted, gone.limit_key
FROM gone
CROSS JOIN LATERAL (
    -- The tasks.
    SELECT named.key AS lo, named.key AS hi
    FROM unnest(gone.keys) AS named (key)
    UNION ALL
    -- The gaps: each ends ahead of a task or at the end of the span, and begins behind the task
    -- before or where the span begins.
    SELECT coalesce(lag(border.key) OVER (ORDER BY border.key) + 1, gone.lo), border.key - 1
    FROM (
        SELECT named.key FROM unnest(gone.keys) AS named (key)
        UNION ALL
        SELECT gone.hi + 1
    ) AS border (key)
) AS piece
WHERE piece.lo <= piece.hi
