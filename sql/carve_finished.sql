-- name: carve_finished
--
-- Cuts finished tasks out of their spans, so that each is a row of its own and can be deleted
-- without its neighbours.
--
--   $1 keys  bigint[], sorted, each once
--
-- Waits for somebody who is carving or deleting neighbours at this moment, or pruning; what became
-- of the task is for the caller's next statement to see. Rows are locked in the order of lo.
WITH cut AS MATERIALIZED (
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
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT finished.lo FROM stint.finished WHERE finished.lo = cut.lo FOR UPDATE
    ) AS finished
), gone AS (
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
INSERT INTO stint.finished (lo, hi, finished_at, claim, tries, cause, actor)
SELECT piece.lo, piece.hi, gone.finished_at, gone.claim, gone.tries, gone.cause, gone.actor
FROM gone
CROSS JOIN LATERAL (
    SELECT named.key AS lo, named.key AS hi
    FROM unnest(gone.keys) AS named (key)
    UNION ALL
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
