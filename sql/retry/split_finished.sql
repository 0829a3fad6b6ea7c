-- name: split_finished
--
-- Cuts finished tasks out of their spans, so that each is a row of its own and can be deleted
-- without its neighbours. What became of the tasks meanwhile is for the caller's next statement to
-- see.
--
--   $1 keys  bigint[], sorted, each once
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too.
    SELECT span.lo, array_agg(named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key; columns=finished.lo, finished.hi
    ) AS span
    WHERE span.hi >= named.key AND span.lo < span.hi
    GROUP BY span.lo
    ORDER BY span.lo
),
-- include take_spans: table=finished; kept=span.keys
-- A row that stands for several tasks has neither status nor result.
INSERT INTO stint.finished (lo, hi, finished_at, claim, tries, cause, actor, owned_at, ready_at)
SELECT piece.lo, piece.hi, gone.finished_at, gone.claim, gone.tries, gone.cause, gone.actor,
       gone.owned_at, gone.ready_at
FROM gone
CROSS JOIN LATERAL (
    -- include pieces_of_span
) AS piece
WHERE piece.lo <= piece.hi
