-- name: list_unwatched
--
-- Returns up to $1 tasks in progress of owners whose process nobody watches, in the form of
-- list_tasks, those first whose leases expire last: the owner is not registered, or no longer, or
-- its session is gone.
--
--   $1 tasks  integer
WITH watched AS MATERIALIZED (
    SELECT actors.session, actors.actor
    FROM stint.actors
    CROSS JOIN LATERAL (
        SELECT sessions.id, sessions.gone_at
        FROM stint.sessions
        WHERE sessions.id = actors.attendant
        OFFSET 0
    ) AS session
    WHERE session.gone_at IS NULL
      -- The lock shows whether a session lives. A standby does not know the locks.
      AND (pg_is_in_recovery() OR session.id IN (
          SELECT classid::bigint << 32 | objid::bigint
          FROM pg_locks
          WHERE locktype = 'advisory' AND objsubid = 1 AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      ))
), chosen AS MATERIALIZED (
    SELECT span.key, row_number() OVER (ORDER BY lease.deadline DESC, span.key) AS place
    FROM (
        -- Leases are read from end to end, as in list_problems.
        SELECT leases.claim, leases.part, leases.deadline, leases.spans
        FROM stint.leases
        WHERE NOT EXISTS (SELECT FROM watched
                          WHERE watched.session = leases.session
                            AND watched.actor = leases.actor)
        ORDER BY leases.deadline DESC, leases.claim, leases.part
    ) AS lease
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
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
    ORDER BY place
    LIMIT $1::integer
)
SELECT task.id, task.action, NULL::bytea AS body, task.priority, task.max_tries, task.deadline,
       task.on_abort, task.post_result, task.inserted_at, task.state, task.tries, task.actor,
       task.until, task.owned_at, task.status, task.progress, NULL::bytea AS result,
       task.limit_key, task.headers::text
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.place
