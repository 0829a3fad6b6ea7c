-- name: check_sessions
--
-- Returns the sessions of stores that are gone and still own tasks: how long ago somebody noticed
-- (null if nobody has), the actors, and how many tasks. Nobody holds the lock of such a session.
SELECT statement_timestamp() - session.gone_at AS gone, session.actors, session.tasks
FROM (
    SELECT sessions.id, sessions.gone_at, array_agg(DISTINCT leases.actor) AS actors,
           sum(leased.hi - leased.lo + 1)::bigint AS tasks
    FROM stint.sessions
    JOIN stint.leases ON leases.session = sessions.id
    JOIN stint.leased ON leased.claim = leases.claim AND leased.part = leases.part
    GROUP BY sessions.id
) AS session
WHERE NOT EXISTS (
    SELECT
    -- Reads the list of locks. To take one, as the check_sessions of a store does, could make a
    -- store that looks at the same time believe that the session lives.
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid::bigint << 32 | objid::bigint = session.id
)
ORDER BY session.id
