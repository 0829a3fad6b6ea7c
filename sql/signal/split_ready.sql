-- name: split_ready
--
-- Cuts the ready tasks with these keys out of their spans, so that each is a span of its own and
-- can be taken away without its neighbours. What became of the tasks meanwhile is for the caller's
-- next statement to see.
--
--   $1 keys  bigint[], sorted
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too.
    SELECT found.lo, array_agg(DISTINCT named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=ready; key=named.key; columns=ready.lo, ready.hi
    ) AS found
    WHERE found.lo < found.hi AND found.hi >= named.key
    GROUP BY found.lo
    ORDER BY found.lo
),
-- include take_spans: table=ready; kept=span.keys
-- include put_back_ready
