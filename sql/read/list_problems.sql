-- name: list_problems
--
-- Returns up to $1 tasks of each kind that people look for when something is wrong, in the form of
-- list_tasks, followed by the kind: 0 in progress for longest, 1 ready or scheduled and tried most
-- often, 2 failed last.
--
--   $1 tasks  integer
WITH slow AS MATERIALIZED (
    -- Leases are one row per fetch under way, so they are read from end to end. That spares
    -- every fetch and every heartbeat another index.
    SELECT span.key, lease.owned_at
    FROM (
        SELECT leases.claim, leases.part, leases.owned_at, leases.spans
        FROM stint.leases
        ORDER BY leases.owned_at, leases.claim, leases.part
    ) AS lease
    -- include keys_of_lease
    ORDER BY lease.owned_at, lease.claim, lease.part
    LIMIT $1::integer
), failing AS MATERIALIZED (
    -- The indexes ready_tried and scheduled_tried hold only tasks that have been tried.
    SELECT tried.key, tried.tries
    FROM (
        (SELECT ready.lo AS key, ready.tries
         FROM stint.ready
         WHERE ready.tries > 0
         ORDER BY ready.tries DESC
         LIMIT $1::integer)
        UNION ALL
        (SELECT scheduled.key, scheduled.tries
         FROM stint.scheduled
         WHERE scheduled.tries > 0
         ORDER BY scheduled.tries DESC
         LIMIT $1::integer)
    ) AS tried
    ORDER BY tried.tries DESC, tried.key
    LIMIT $1::integer
), failed AS MATERIALIZED (
    -- A task failed if it was returned as aborted, had no tries left, passed its deadline, or lost
    -- its owners. The indexes finished_failed and losses_ended hold only such tasks.
    SELECT span.key, finished.finished_at
    FROM (
        (SELECT finished.lo, finished.hi, finished.finished_at
         FROM stint.finished
         WHERE finished.cause IN (1 /* returned */, 2 /* tries */, 6 /* expired */)
         ORDER BY finished.finished_at DESC
         LIMIT $1::integer)
        UNION ALL
        (SELECT losses.key, losses.key, losses.ended_at
         FROM stint.losses
         WHERE losses.ended_at IS NOT NULL
           AND (SELECT finished.cause
                FROM stint.finished
                WHERE finished.lo = losses.key) = 9 /* lost */
         ORDER BY losses.ended_at DESC
         LIMIT $1::integer)
    ) AS finished
    CROSS JOIN LATERAL generate_series(
        finished.lo, least(finished.hi, finished.lo + $1::integer - 1)) AS span (key)
    ORDER BY finished.finished_at DESC, span.key
    LIMIT $1::integer
), chosen AS MATERIALIZED (
    SELECT slow.key, 0 AS kind, row_number() OVER (ORDER BY slow.owned_at, slow.key) AS place
    FROM slow
    UNION ALL
    SELECT failing.key, 1, row_number() OVER (ORDER BY failing.tries DESC, failing.key)
    FROM failing
    UNION ALL
    SELECT failed.key, 2, row_number() OVER (ORDER BY failed.finished_at DESC, failed.key)
    FROM failed
)
SELECT
       -- include task_columns: body=NULL::bytea; status=task.status; result=NULL::bytea
       , chosen.kind
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.kind, chosen.place
