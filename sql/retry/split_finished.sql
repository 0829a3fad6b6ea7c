-- name: split_finished
--
-- Cuts finished tasks out of their spans, so that each is a row of its own and can be deleted
-- without its neighbours. What became of the tasks meanwhile is for the caller's next statement to
-- see.
--
--   $1 keys  bigint[], sorted, each once
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too. The span of a key is the last that
    -- begins in the key's block of 1,024, at the key or ahead of it.
    SELECT span.lo, array_agg(named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT finished.lo, finished.hi
        FROM stint.finished
        WHERE finished.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS span
    WHERE span.hi >= named.key AND span.lo < span.hi
    GROUP BY span.lo
    ORDER BY span.lo
), locked AS MATERIALIZED (
    -- Waits for somebody who is carving or deleting neighbours at this moment, or pruning. Rows are
    -- locked in the order of lo.
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT finished.lo FROM stint.finished WHERE finished.lo = cut.lo FOR UPDATE
    ) AS finished
), gone AS (
    -- LATERAL with OFFSET 0 is a fence, as in return_tasks.
    DELETE FROM stint.finished
    USING (
        SELECT locked.*, finished.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT finished.ctid AS tid FROM stint.finished WHERE finished.lo = locked.lo OFFSET 0
        ) AS finished
    ) AS span
    WHERE finished.ctid = span.tid
    RETURNING finished.*, span.keys
)
-- Each of the tasks becomes a row, and so does each gap between them. A row that stands for several
-- tasks has neither status nor result.
INSERT INTO stint.finished (lo, hi, finished_at, claim, tries, cause, actor)
SELECT piece.lo, piece.hi, gone.finished_at, gone.claim, gone.tries, gone.cause, gone.actor
FROM gone
CROSS JOIN LATERAL (
    -- The tasks.
    SELECT named.key AS lo, named.key AS hi
    FROM unnest(gone.keys) AS named (key)
    UNION ALL
    -- The gaps: each ends ahead of a task or at the end of the span, and begins behind the task
    -- before or where the span begins.
    SELECT gap.lo, gap.hi
    FROM (
        SELECT coalesce(lag(named.key) OVER (ORDER BY named.key) + 1, gone.lo) AS lo,
               named.key - 1 AS hi
        FROM (
            SELECT * FROM unnest(gone.keys)
            UNION ALL
            SELECT gone.hi + 1
        ) AS named (key)
    ) AS gap
    WHERE gap.lo <= gap.hi
) AS piece
