-- name: drop_session
--
-- Deletes a session that is gone, unless it has come back or still has actors, and forgets the
-- remote actors that it attended: their leases stay, since they may be attended elsewhere by now.
-- The lock of a session that has come back cannot be had.
--
--   $1 session  bigint
WITH gone AS (
    DELETE FROM stint.sessions
    WHERE sessions.id = $1::bigint AND pg_try_advisory_xact_lock($1::bigint)
      AND (SELECT true FROM stint.actors WHERE actors.session = $1::bigint LIMIT 1) IS NULL
    RETURNING sessions.id
)
DELETE FROM stint.actors
WHERE actors.attendant = (SELECT gone.id FROM gone)
