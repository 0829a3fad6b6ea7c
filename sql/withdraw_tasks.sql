-- name: withdraw_tasks
--
-- Takes unfinished tasks out of the state they are in and returns the key and the state of each: 0
-- ready, 1 scheduled, 2 in progress, 3 final, 4 blocked. Ready ones must have been carved out of
-- their spans. Owned ones are reported, and taken only if $2 says so. A key that is not in the
-- answer has moved on since the statement began.
--
--   $1 keys   bigint[], sorted
--   $2 owned  boolean
--
-- Waits for whoever holds the task at this moment. Rows are locked table by table, by key in each,
-- the blocked ones together with what an abort would bring down (falls) or signal, for the reason
-- that lock_dependents gives.
WITH RECURSIVE reached (key, falls) AS (
    SELECT named.key, true FROM unnest($1::bigint[]) AS named (key)
    UNION
    SELECT edge.run,
           (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = reached.key OFFSET 0
    ) AS edge
    WHERE reached.falls
), held AS MATERIALIZED (
    SELECT ready.* FROM (
        SELECT 0 AS state, ready.lo AS key, ready.tries
        FROM stint.ready
        WHERE ready.lo = ANY ($1::bigint[]) AND ready.hi = ready.lo
        ORDER BY ready.lo
        FOR UPDATE
    ) AS ready
    UNION ALL
    SELECT scheduled.* FROM (
        SELECT 1, scheduled.key, scheduled.tries
        FROM stint.scheduled
        WHERE scheduled.key = ANY ($1::bigint[])
        ORDER BY scheduled.key
        FOR UPDATE
    ) AS scheduled
    UNION ALL
    SELECT leased.* FROM (
        SELECT 2, leased.key, leased.tries
        FROM stint.leased
        WHERE leased.key = ANY ($1::bigint[])
        ORDER BY leased.key
        FOR UPDATE
    ) AS leased
    UNION ALL
    SELECT blocked.* FROM (
        SELECT 4, blocked.key, blocked.tries
        FROM stint.blocked
        WHERE blocked.key = ANY (ARRAY(SELECT reached.key FROM reached))
        ORDER BY blocked.key
        OFFSET 0 -- a fence: all are locked, not only those that the condition below lets through
        FOR UPDATE
    ) AS blocked
    WHERE blocked.key = ANY ($1::bigint[])
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 0))
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 1))
), disowned AS (
    DELETE FROM stint.leased
    WHERE $2::boolean
      AND leased.key = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 2))
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 4))
)
SELECT held.key, held.state, held.tries
FROM held
UNION ALL
SELECT finished.key, 3, finished.tries
FROM stint.finished
WHERE finished.key = ANY ($1::bigint[])
