-- name: carve_leased
--
-- Cuts owned tasks out of the spans of leased that hold others too, so that they can be taken away
-- without their neighbours: afterwards each of the spans given holds whole rows only.
--
--   $1 lo  bigint[], sorted
--   $2 hi  bigint[]: the spans do not overlap
--
-- Waits for an owner that is returning neighbours at this moment; what became of the tasks is for
-- the caller's next statement to see. Rows are locked in the order of lo.
--
-- What is left of a row goes back in pieces of 16, so that those who return tasks of one hand-out
-- one by one soon do not meet.
WITH cut AS MATERIALIZED (
    SELECT found.lo, array_agg(named.lo ORDER BY named.lo) AS los,
           array_agg(named.hi ORDER BY named.lo) AS his
    FROM unnest($1::bigint[], $2::bigint[]) AS named (lo, hi)
    CROSS JOIN LATERAL (
        SELECT span.lo
        FROM (VALUES (named.lo), (named.hi)) AS border (key)
        CROSS JOIN LATERAL (
            SELECT leased.lo, leased.hi
            FROM stint.leased
            WHERE leased.lo BETWEEN border.key >> 10 << 10 AND border.key
            ORDER BY leased.lo DESC
            LIMIT 1
        ) AS span
        WHERE span.hi >= border.key AND (span.lo < named.lo OR span.hi > named.hi)
        GROUP BY span.lo
    ) AS found
    GROUP BY found.lo
    ORDER BY found.lo
), locked AS MATERIALIZED (
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT leased.lo FROM stint.leased WHERE leased.lo = cut.lo FOR UPDATE
    ) AS leased
), gone AS (
    DELETE FROM stint.leased
    USING (
        SELECT locked.*, leased.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT leased.ctid AS tid FROM stint.leased WHERE leased.lo = locked.lo OFFSET 0
        ) AS leased
    ) AS span
    WHERE leased.ctid = span.tid
    RETURNING leased.*, span.los, span.his
)
INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted)
SELECT piece.lo, piece.hi, gone.claim, gone.tries, gone.part, gone.completed, gone.aborted
FROM gone
CROSS JOIN LATERAL (
    SELECT greatest(named.lo, gone.lo) AS lo, least(named.hi, gone.hi) AS hi
    FROM unnest(gone.los, gone.his) AS named (lo, hi)
    UNION ALL
    SELECT greatest(gap.lo, chunk.n << 4), least(gap.hi, (chunk.n << 4) + 15)
    FROM (
        SELECT coalesce(lag(named.hi) OVER (ORDER BY named.lo) + 1, gone.lo) AS lo,
               named.lo - 1 AS hi
        FROM (
            SELECT * FROM unnest(gone.los, gone.his)
            UNION ALL
            SELECT gone.hi + 1, NULL
        ) AS named (lo, hi)
    ) AS gap
    CROSS JOIN LATERAL generate_series(gap.lo >> 4, gap.hi >> 4) AS chunk (n)
    WHERE gap.lo <= gap.hi
) AS piece
