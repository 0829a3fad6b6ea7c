-- name: expire_session_leases
--
-- Ends the leases of actor $2 of a session that is gone, so that reclaim_leases, in the same
-- transaction, hands its tasks on. Does nothing if the session has come back. Returns how many
-- leases it passed over, because somebody extends or holds them at this moment.
--
--   $1 session  bigint
--   $2 actor    text
WITH lost AS MATERIALIZED (
    -- The lock of a session that has come back cannot be had. The lock is held until the
    -- transaction ends: a session that comes back meanwhile finds all of it done.
    SELECT sessions.id
    FROM stint.sessions
    WHERE sessions.id = $1::bigint AND pg_try_advisory_xact_lock($1::bigint)
),
-- include end_leases: session=lost.id
, unregistered AS (
    -- The actor stays registered as long as leases were passed over, so that they are found again.
    DELETE FROM stint.actors
    USING lost, passed
    WHERE actors.session = lost.id AND actors.actor = $2::text AND passed.leases = 0
)
SELECT passed.leases FROM passed
