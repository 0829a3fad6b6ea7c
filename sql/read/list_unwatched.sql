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
    -- include keys_of_lease
    ORDER BY place
    LIMIT $1::integer
)
SELECT
       -- include task_columns: body=NULL::bytea; result=NULL::bytea
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.place
