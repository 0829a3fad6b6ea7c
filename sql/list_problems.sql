-- name: list_problems
--
-- Up to $1 tasks of each kind that people look for when something is wrong, in the form of
-- list_tasks, with the kind behind: 0 those in progress for longest, 1 those ready or scheduled
-- that were tried most often, 2 those that failed last: returned so (cause 1), without tries left
-- (2), or past their deadlines (6).
--
--   $1 tasks  integer
--
-- Leases are one row per hand-out under way, so they are read from end to end, which spares every
-- hand-out and heartbeat another index. The others go along indexes that hold such tasks alone.
WITH slow AS MATERIALIZED (
    SELECT span.key, lease.owned_at
    FROM (
        SELECT leases.claim, leases.part, leases.owned_at, leases.spans
        FROM stint.leases
        ORDER BY leases.owned_at, leases.claim, leases.part
    ) AS lease
    -- A subscript of an array that is packed unpacks all of it: that is done here, once.
    CROSS JOIN LATERAL (SELECT lease.spans || '{}'::bigint[] AS spans OFFSET 0) AS unpacked
    CROSS JOIN LATERAL (
        SELECT span.key
        FROM generate_subscripts(unpacked.spans, 1) AS pair (n)
        CROSS JOIN LATERAL (
            SELECT leased.lo, leased.hi
            FROM stint.leased
            WHERE leased.lo BETWEEN unpacked.spans[pair.n][1] AND unpacked.spans[pair.n][2]
              AND leased.claim = lease.claim AND leased.part = lease.part
            OFFSET 0
        ) AS leased
        CROSS JOIN LATERAL generate_series(
            leased.lo, least(leased.hi, leased.lo + $1::integer - 1)) AS span (key)
        LIMIT $1::integer
    ) AS span
    ORDER BY lease.owned_at, lease.claim, lease.part
    LIMIT $1::integer
), failing AS MATERIALIZED (
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
    SELECT span.key, finished.finished_at
    FROM (
        SELECT finished.lo, finished.hi, finished.finished_at
        FROM stint.finished
        WHERE finished.cause IN (1 /* returned */, 2 /* tries */, 6 /* expired */)
        ORDER BY finished.finished_at DESC
        LIMIT $1::integer
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
SELECT task.id, task.action, NULL::bytea AS body, task.priority, task.max_tries, task.deadline,
       task.on_abort, task.post_result, task.inserted_at, task.state, task.tries, task.actor,
       task.until, task.owned_at, task.status, task.progress, NULL::bytea AS result, chosen.kind
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.kind, chosen.place
