-- name: explain_task
--
-- Returns a task (place 0) and up to $2 of the predecessors that it waits for, or because of which
-- it was aborted or skipped, or of the tasks that hold slots of its key, or the key, while it is
-- ready (place 1), and up to $2 of those that count under the limit of its action meanwhile (place
-- 2), each in the form of get_tasks without body and result. With each come how many predecessors
-- the task waits for in all, and how many it has (0 for others), what time it is, its place, and of
-- a blocked task whether the first of several starts it.
--
--   $1 id     text
--   $2 tasks  integer
WITH named AS MATERIALIZED (
    -- waits says that the task is blocked, fell that it was aborted because of a predecessor, or
    -- skipped.
    SELECT tasks.key, tasks.action, tasks.limit_key,
           (SELECT span.hi >= tasks.key
            FROM (
                -- include span_of_key: table=ready; key=tasks.key; columns=ready.hi
            ) AS span) AS is_ready,
           (SELECT true FROM stint.blocked WHERE blocked.key = tasks.key) AS waits,
           tasks.on_abort,
           (SELECT span.cause IN (3 /* a predecessor */, 8 /* skipped */) AND span.hi >= tasks.key
            FROM (
                -- include span_of_key: table=finished; key=tasks.key;
                --   columns=finished.hi, finished.cause
            ) AS span) AS fell
    FROM stint.tasks
    WHERE tasks.id = $1::text
), chosen AS MATERIALIZED (
    -- A blocked task waits for the predecessors that have not ended. A task that fell did so
    -- because of predecessors that did not complete, or did not meet their conditions.
    SELECT named.key, 0 AS place FROM named
    UNION ALL
    SELECT before.after, 1
    FROM (
        SELECT edge.after
        FROM (
            SELECT named.waits, named.fell, named.on_abort, edge.*
            FROM named
            CROSS JOIN LATERAL (
                SELECT edges.after, edges.accepts, edges.results
                FROM stint.edges
                WHERE edges.run = named.key
                OFFSET 0
            ) AS edge
            ORDER BY edge.after
            OFFSET 0 -- a fence: sorted first, so that only some are looked up
        ) AS edge
        CROSS JOIN LATERAL (
            SELECT (SELECT ARRAY[span.cause, CASE
                        WHEN edge.accepts IS NULL
                        THEN (span.cause = 0 /* completed */ OR edge.on_abort <> 0)::integer
                        ELSE (
                            -- include condition_met: edge=edge; cause=span.cause;
                            --   result=span.result
                        )::integer
                    END]
                    FROM (
                        SELECT finished.hi, finished.cause,
                               coalesce(finished.result, '') AS result
                        FROM stint.finished
                        WHERE finished.lo BETWEEN edge.after >> 10 << 10 AND edge.after
                        ORDER BY finished.lo DESC
                        LIMIT 1
                    ) AS span
                    WHERE span.hi >= edge.after) AS cause_and_met
            OFFSET 0
        ) AS ended
        WHERE edge.waits AND ended.cause_and_met IS NULL
           OR edge.fell AND ended.cause_and_met[2] = 0
        ORDER BY edge.after
        LIMIT $2::integer
    ) AS before
    UNION ALL
    SELECT slot.key, 1
    FROM (
        SELECT slot.key
        FROM named
        CROSS JOIN LATERAL (
            SELECT slots.key, slots.claim
            FROM stint.slots
            WHERE slots.action = named.action AND slots.limit_key = named.limit_key
              AND named.is_ready
            OFFSET 0
        ) AS slot
        CROSS JOIN LATERAL (
            -- include span_of_key: table=leased; key=slot.key; columns=leased.hi, leased.claim
        ) AS leased
        WHERE leased.hi >= slot.key AND leased.claim = slot.claim
        UNION
        -- In strict order, a task holds its key whatever its state.
        SELECT holder.key
        FROM named
        CROSS JOIN LATERAL (
            SELECT holders.key
            FROM stint.holders
            WHERE holders.action = named.action AND holders.limit_key = named.limit_key
              AND named.is_ready
            OFFSET 0
        ) AS holder
        WHERE holder.key <> named.key
        ORDER BY key
        LIMIT $2::integer
    ) AS slot
    UNION ALL
    SELECT owned.key, 2
    FROM (
        SELECT one.key
        FROM named
        CROSS JOIN LATERAL (
            SELECT limits.action
            FROM stint.limits
            WHERE limits.action = named.action AND limits.concurrency IS NOT NULL
              AND named.is_ready
            OFFSET 0
        ) AS limits
        CROSS JOIN LATERAL (
            SELECT leased.lo, leased.hi
            FROM stint.leased
            WHERE leased.limited_action = limits.action
            LIMIT $2::integer
        ) AS leased
        CROSS JOIN LATERAL generate_series(leased.lo, leased.hi) AS one (key)
        LIMIT $2::integer
    ) AS owned
)
SELECT
       -- include task_columns: body=NULL::bytea; status=task.status; result=NULL::bytea
       ,
       coalesce((SELECT blocked.missing
                 FROM stint.blocked
                 WHERE blocked.key = chosen.key AND chosen.place = 0), 0) AS missing,
       (SELECT counted.dependencies
        FROM (
            SELECT
                   -- include dependencies: key=chosen.key
            WHERE chosen.place = 0
        ) AS counted) AS dependencies,
       statement_timestamp() AS now, chosen.place,
       -- One edge tells, since all of a task are such edges or none.
       coalesce(CASE WHEN chosen.place = 0 AND task.state = 0 /* blocked */ THEN (
           SELECT edges.accepts & 8 FROM stint.edges WHERE edges.run = chosen.key LIMIT 1
       ) END, 0) <> 0 AS any
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.place, chosen.key
