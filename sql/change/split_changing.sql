-- name: split_changing
--
-- Cuts those of the ready tasks with these keys out of their spans that change_tasks will make
-- different, as split_ready does. Those that are so already stay in the spans that they share.
--
--   $1 to $8  as in change_tasks
WITH cut AS MATERIALIZED (
    -- The spans that hold one of the tasks and others, too.
    SELECT found.lo, array_agg(DISTINCT named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=ready; key=named.key; columns=ready.lo, ready.hi
    ) AS found
    CROSS JOIN LATERAL (
        SELECT tasks.priority, tasks.limit_key, tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key = named.key
        OFFSET 0
    ) AS task
    WHERE found.lo < found.hi AND found.hi >= named.key
      -- One that shares its span has had no tries.
      AND ($2::boolean
               AND coalesce($3::timestamptz, statement_timestamp() + $4::interval)
                   > statement_timestamp()
           OR task.priority IS DISTINCT FROM coalesce($5::smallint, task.priority)
           OR $6::boolean AND task.limit_key IS DISTINCT FROM $7::text COLLATE "C"
           OR $8::integer <> 0 AND task.max_tries <> greatest($8::integer, 0))
    GROUP BY found.lo
    ORDER BY found.lo
),
-- include take_spans: table=ready; kept=span.keys
-- include put_back_ready
