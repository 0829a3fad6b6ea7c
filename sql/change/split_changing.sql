-- name: split_changing
-- variants: split_ready
--
-- Cuts those of the ready tasks with these keys out of their spans that change_tasks will make
-- different, so that each is a span of its own and can be taken away without its neighbours. Those
-- that are so already stay in the spans that they share. What became of the tasks meanwhile is for
-- the caller's next statement to see.
--
--   $1 to $8  as in change_tasks
--
-- split_ready cuts out all tasks with the keys $1, sorted.
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too.
    SELECT found.lo, array_agg(DISTINCT named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=ready; key=named.key
    ) AS found
    -- unless split_ready
    CROSS JOIN LATERAL (
        SELECT tasks.priority, tasks.limit_key, tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key = named.key
        OFFSET 0
    ) AS task
    -- end
    WHERE found.lo < found.hi AND found.hi >= named.key
    -- unless split_ready
      -- One that shares its span has had no tries.
      AND ($2::boolean
               AND coalesce($3::timestamptz, statement_timestamp() + $4::interval)
                   > statement_timestamp()
           OR task.priority IS DISTINCT FROM coalesce($5::smallint, task.priority)
           OR $6::boolean AND task.limit_key IS DISTINCT FROM $7::text COLLATE "C"
           OR $8::integer <> 0 AND task.max_tries <> greatest($8::integer, 0))
    -- end
    GROUP BY found.lo
    ORDER BY found.lo
),
-- include take_spans: table=ready; kept=span.keys
-- The pieces keep the position, and with it their place in the queue, or that they are parked.
INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted, limit_key)
SELECT gone.position, piece.lo, piece.hi, gone.action, gone.priority, gone.tries, gone.completed,
       gone.aborted, gone.limit_key
FROM gone
CROSS JOIN LATERAL (
    -- include pieces_of_span
) AS piece
WHERE piece.lo <= piece.hi
