-- name: end_sessions
--
-- Has the sessions with process IDs $1 end, with all that they have not committed. Returns those
-- that have not ended yet: none when they all have.
--
--   $1 pids  bigint[]
--
-- The sessions are materialized: otherwise others might be ended before they are found not to be
-- among these.
WITH sessions AS MATERIALIZED (
    SELECT activity.pid
    FROM pg_catalog.pg_stat_activity AS activity
    WHERE activity.pid = ANY ($1::bigint[])
      AND activity.datname = pg_catalog.current_database()
)
SELECT sessions.pid
FROM sessions
WHERE pg_catalog.pg_terminate_backend(sessions.pid)
