-- name: lock_states
--
-- Keeps tasks where they are until the transaction ends, so that edges can be added: none of $1 can
-- end, none of $2 can be fetched. Returns for each the state, as the view task_states numbers
-- it, whether its lease has expired and nobody else owns it yet (late), for a completed spontaneous
-- task how many completed and aborted tasks it stands for, and of a task of $2 whether the first of
-- several starts it (any). A key that is not in the
-- answer has moved on since the statement began, or is gone.
--
--   $1 after  bigint[], sorted: tasks to wait for
--   $2 run    bigint[], sorted: tasks that shall wait; split_ready has cut them out of their spans
--   $3 judged  bigint[]: those of $1 that conditions are about; none is deleted or replaced until
--              then, though it has ended
--
-- Waits for whoever holds a task at this moment. Rows are locked table by table, in the order of
-- withdraw_tasks, and by key in each table.
WITH named AS MATERIALIZED (
    SELECT named.key, bool_or(named.is_after) AS is_after, bool_or(NOT named.is_after) AS is_run,
           bool_or(named.is_judged) AS is_judged
    FROM (
        SELECT after.key, true AS is_after, false AS is_judged
        FROM unnest($1::bigint[]) AS after (key)
        UNION ALL
        SELECT run.key, false, false FROM unnest($2::bigint[]) AS run (key)
        UNION ALL
        SELECT judged.key, true, true FROM unnest($3::bigint[]) AS judged (key)
    ) AS named
    GROUP BY named.key
    ORDER BY named.key
), queued AS MATERIALIZED (
    -- A task that shall wait must be alone in its span. One that became ready behind split_ready,
    -- in a span with others, is left out of the answer.
    SELECT named.key, named.is_after, named.is_run, ready.lo, ready.late
    FROM named
    CROSS JOIN LATERAL (
        -- include span_of_key: table=ready; key=named.key; columns=ready.lo
    ) AS span
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.late
        FROM stint.ready
        WHERE ready.lo = span.lo AND ready.hi + 0 >= named.key -- + 0: not along ready_order
          AND (ready.lo = ready.hi OR NOT named.is_run)
        FOR UPDATE
    ) AS ready
), owned AS MATERIALIZED (
    SELECT named.key, named.is_after, leased.lo
    FROM named
    CROSS JOIN LATERAL (
        -- include span_of_key: table=leased; key=named.key; columns=leased.lo
    ) AS span
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo = span.lo AND leased.hi >= named.key
        FOR UPDATE
    ) AS leased
), held AS MATERIALIZED (
    SELECT queued.key, 2::smallint /* ready */ AS state, queued.late, queued.is_after, queued.is_run
    FROM queued
    UNION ALL
    SELECT later.key, 1 /* scheduled */, false, named.is_after, named.is_run
    FROM named
    CROSS JOIN LATERAL (
        SELECT scheduled.key FROM stint.scheduled WHERE scheduled.key = named.key FOR UPDATE
    ) AS later
    UNION ALL
    SELECT owned.key, 3 /* in progress */, false, owned.is_after, false FROM owned
    UNION ALL
    SELECT waiting.key, 0 /* blocked */, false, named.is_after, named.is_run
    FROM named
    CROSS JOIN LATERAL (
        SELECT blocked.key FROM stint.blocked WHERE blocked.key = named.key FOR UPDATE
    ) AS waiting
), renewed_queued AS (
    -- A task to wait for gets a new version of its row, here and below. A return that began before
    -- this cannot see the new edges, so it passes the task over and looks again. And a transaction
    -- that is stricter than READ COMMITTED, whose snapshot is older, fails when it comes to end the
    -- task.
    UPDATE stint.ready
    SET late = ready.late
    WHERE ready.lo = ANY (ARRAY(SELECT queued.lo FROM queued WHERE queued.is_after))
), renewed_later AS (
    UPDATE stint.scheduled
    SET tries = scheduled.tries
    WHERE scheduled.key = ANY (ARRAY(
        SELECT held.key FROM held WHERE held.state = 1 /* scheduled */ AND held.is_after
    ))
), renewed_owned AS (
    UPDATE stint.leased
    SET claim = leased.claim
    WHERE leased.lo = ANY (ARRAY(SELECT owned.lo FROM owned WHERE owned.is_after))
), renewed_blocked AS (
    UPDATE stint.blocked
    SET missing = blocked.missing
    WHERE blocked.key = ANY (ARRAY(
        SELECT held.key FROM held WHERE held.state = 0 /* blocked */ AND held.is_after
    ))
)
SELECT held.key, held.state, held.late, NULL::integer AS completed, NULL::integer AS aborted,
       -- One edge tells, since all of a task are such edges or none.
       coalesce(CASE WHEN held.is_run THEN (
           SELECT edges.accepts & 8 FROM stint.edges WHERE edges.run = held.key LIMIT 1
       ) END, 0) <> 0 AS any
FROM held
UNION ALL
SELECT ended.key, (10 + ended.cause)::smallint, false, joined.completed, joined.aborted, false
FROM (
    SELECT named.key, span.cause
    FROM named
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key; columns=finished.hi, finished.cause
    ) AS span
    WHERE span.hi >= named.key AND NOT named.is_judged
      -- One that was replaced has no definition: the caller looks again, at the one with its ID.
      AND (SELECT true FROM stint.tasks WHERE tasks.key = named.key)
    UNION ALL
    SELECT judged.*
    FROM (
        SELECT named.key, span.cause
        FROM named
        CROSS JOIN LATERAL (
            -- include span_of_key: table=finished; key=named.key;
            --   columns=finished.hi, finished.cause
        ) AS span
        CROSS JOIN LATERAL (
            SELECT tasks.key FROM stint.tasks WHERE tasks.key = named.key FOR KEY SHARE
        ) AS definition
        WHERE span.hi >= named.key AND named.is_judged
    ) AS judged
) AS ended
LEFT JOIN LATERAL (
    SELECT joined.completed, joined.aborted
    FROM stint.joined
    WHERE joined.key = ended.key
    OFFSET 0
) AS joined ON true
