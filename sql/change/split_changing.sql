-- name: split_changing
--
-- Cuts those of the ready tasks with these keys out of their spans that change_tasks will make
-- different, as split_ready does. Those that are so already stay in the spans that they share.
--
--   $1 to $8  as in change_tasks
WITH cut AS MATERIALIZED (
    SELECT found.lo, array_agg(DISTINCT named.key ORDER BY named.key) AS keys
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY ready.lo DESC
        LIMIT 1
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
    -- The tasks, and the gaps, as in split_ready.
    SELECT named.key AS lo, named.key AS hi
    FROM unnest(gone.keys) AS named (key)
    UNION ALL
    SELECT coalesce(lag(border.key) OVER (ORDER BY border.key) + 1, gone.lo), border.key - 1
    FROM (
        SELECT named.key FROM unnest(gone.keys) AS named (key)
        UNION ALL
        SELECT gone.hi + 1
    ) AS border (key)
) AS piece
WHERE piece.lo <= piece.hi
