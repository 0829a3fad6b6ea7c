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
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.key
    FROM unnest($1::bigint[]) AS named (key)
), span AS MATERIALIZED (
    SELECT DISTINCT found.lo
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS found
    WHERE found.lo < found.hi AND found.hi >= named.key
), locked AS MATERIALIZED (
    SELECT ready.lo
    FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT span.lo FROM span))
    ORDER BY ready.lo
    FOR UPDATE
), gone AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT locked.lo FROM locked))
    RETURNING ready.*
)
INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted)
SELECT gone.position, piece.lo, piece.hi, gone.action, gone.priority, gone.tries, gone.completed,
       gone.aborted
FROM gone
CROSS JOIN LATERAL (
    SELECT named.key AS lo, named.key AS hi
    FROM named
    WHERE named.key BETWEEN gone.lo AND gone.hi
    UNION ALL
    SELECT coalesce(lag(cut.key) OVER (ORDER BY cut.key) + 1, gone.lo), cut.key - 1
    FROM (
        SELECT named.key FROM named WHERE named.key BETWEEN gone.lo AND gone.hi
        UNION ALL
        SELECT gone.hi + 1
    ) AS cut (key)
) AS piece
WHERE piece.lo <= piece.hi
