-- name: split_leased
--
-- Cuts owned tasks out of the rows of leased that hold others, too, so that they can be taken away
-- without their neighbours: afterwards each of the spans given holds whole rows only. What became
-- of the tasks meanwhile is for the caller's next statement to see.
--
--   $1 lo  bigint[], sorted
--   $2 hi  bigint[]: the spans do not overlap
--
-- An example: of a row with the tasks 1 to 60, a caller that wants 3 to 20 leaves
--
--   [1..2] [3..20] [21..31] [32..47] [48..60]
WITH cut AS MATERIALIZED (
    -- The rows that reach beyond a span given, each with the spans given that begin or end in it. A
    -- row that reaches beyond a span holds its first or its last key.
    SELECT found.lo, array_agg(named.lo ORDER BY named.lo) AS los,
           array_agg(named.hi ORDER BY named.lo) AS his
    FROM unnest($1::bigint[], $2::bigint[]) AS named (lo, hi)
    CROSS JOIN LATERAL (
        SELECT span.lo
        FROM (VALUES (named.lo), (named.hi)) AS border (key)
        CROSS JOIN LATERAL (
            -- include span_of_key: table=leased; key=border.key; columns=leased.lo, leased.hi
        ) AS span
        WHERE span.hi >= border.key AND (span.lo < named.lo OR span.hi > named.hi)
        GROUP BY span.lo
    ) AS found
    GROUP BY found.lo
    ORDER BY found.lo
),
-- include take_spans: table=leased; kept=span.los, span.his
-- A row that stands for several tasks has neither status nor progress.
INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, ready_at, limited_action)
SELECT piece.lo, piece.hi, gone.claim, gone.tries, gone.part, gone.completed, gone.aborted,
       gone.ready_at, gone.limited_action
FROM gone
CROSS JOIN LATERAL (
    -- The parts of the row that are in spans given.
    SELECT greatest(named.lo, gone.lo) AS lo, least(named.hi, gone.hi) AS hi
    FROM unnest(gone.los, gone.his) AS named (lo, hi)
    UNION ALL
    -- The rest of the row goes back in pieces of 16, so that owners who return the tasks of one
    -- fetch one by one soon do not meet.
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
