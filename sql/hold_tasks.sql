-- name: hold_tasks
--
-- Keeps tasks where they are until the transaction ends, so that edges can be added: none of $1 can
-- end, none of $2 can be handed out. Returns the state of each, as the view task_states numbers it,
-- whether it is one whose lease expired, and of a completed spontaneous one what it stands for. A
-- key that is not in the answer has moved on since the statement began, or is gone.
--
--   $1 after  bigint[], sorted: tasks to wait for
--   $2 run    bigint[], sorted: tasks that shall wait
--
-- Waits for whoever holds a task at this moment. Rows are locked table by table as withdraw_tasks
-- does, by key in each.
--
-- A task to wait for gets a new version of its row: a return that began before cannot see the new
-- edges, so it shall pass the task over and look again; and a transaction that is stricter than
-- READ COMMITTED, whose snapshot is older, shall fail when it comes to end the task.
--
-- A task that shall wait must be cut out of its span. One that became ready behind carve_ready, in
-- a span with others, is not in the answer.
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.key
    FROM unnest($1::bigint[] || $2::bigint[]) AS named (key)
    ORDER BY named.key
), queued AS MATERIALIZED (
    SELECT named.key, ready.lo, ready.late
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.lo
        FROM stint.ready
        WHERE ready.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS span
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.late
        FROM stint.ready
        WHERE ready.lo = span.lo AND ready.hi >= named.key
          AND (ready.lo = ready.hi OR named.key <> ALL ($2::bigint[]))
        FOR UPDATE
    ) AS ready
), owned AS MATERIALIZED (
    SELECT named.key, leased.lo
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY leased.lo DESC
        LIMIT 1
    ) AS span
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo = span.lo AND leased.hi >= named.key
        FOR UPDATE
    ) AS leased
), held AS MATERIALIZED (
    SELECT queued.key, 2::smallint AS state, queued.late FROM queued
    UNION ALL
    SELECT scheduled.key, 1, false FROM (
        SELECT scheduled.key
        FROM stint.scheduled
        WHERE scheduled.key = ANY ($1::bigint[] || $2::bigint[])
        ORDER BY scheduled.key
        FOR UPDATE
    ) AS scheduled
    UNION ALL
    SELECT owned.key, 3, false FROM owned
    UNION ALL
    SELECT blocked.key, 0, false FROM (
        SELECT blocked.key
        FROM stint.blocked
        WHERE blocked.key = ANY ($1::bigint[] || $2::bigint[])
        ORDER BY blocked.key
        FOR UPDATE
    ) AS blocked
), renewed_queued AS (
    UPDATE stint.ready
    SET late = ready.late
    WHERE ready.lo = ANY (ARRAY(
        SELECT queued.lo FROM queued WHERE queued.key = ANY ($1::bigint[])
    ))
), renewed_later AS (
    UPDATE stint.scheduled
    SET tries = scheduled.tries
    WHERE scheduled.key = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 1))
      AND scheduled.key = ANY ($1::bigint[])
), renewed_owned AS (
    UPDATE stint.leased
    SET claim = leased.claim
    WHERE leased.lo = ANY (ARRAY(
        SELECT owned.lo FROM owned WHERE owned.key = ANY ($1::bigint[])
    ))
), renewed_blocked AS (
    UPDATE stint.blocked
    SET missing = blocked.missing
    WHERE blocked.key = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 0))
      AND blocked.key = ANY ($1::bigint[])
)
SELECT held.key, held.state, held.late, NULL::integer AS completed, NULL::integer AS aborted
FROM held
UNION ALL
SELECT named.key, (10 + span.cause)::smallint, false, joined.completed, joined.aborted
FROM named
CROSS JOIN LATERAL (
    SELECT finished.hi, finished.cause
    FROM stint.finished
    WHERE finished.lo BETWEEN named.key >> 10 << 10 AND named.key
    ORDER BY finished.lo DESC
    LIMIT 1
) AS span
LEFT JOIN LATERAL (
    SELECT joined.completed, joined.aborted
    FROM stint.joined
    WHERE joined.key = named.key
    OFFSET 0
) AS joined ON true
WHERE span.hi >= named.key
