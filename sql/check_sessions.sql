-- name: check_sessions
--
-- Looks whether the sessions live: the lock of one that does cannot be had. Tells for each since
-- how long it is gone, null if it lives, whether that is longer than its grace, how much of the
-- grace is left, and which actors are registered at it.
--
-- A lock that can be had is held until the transaction ends, so that the session cannot come back
-- while its absence is noted. Of two that look at the same time one believes that the session
-- lives.
WITH looked AS MATERIALIZED (
    SELECT sessions.id, coalesce(sessions.gone_at, statement_timestamp()) AS gone_at,
           sessions.gone_at IS NULL AS fresh, sessions.grace, sessions.watches,
           pg_try_advisory_xact_lock(sessions.id) AS gone
    FROM stint.sessions
), noted AS (
    UPDATE stint.sessions
    SET gone_at = looked.gone_at
    FROM looked
    WHERE sessions.id = looked.id AND looked.gone AND looked.fresh
)
SELECT looked.id, looked.watches AND NOT looked.gone AS watches,
       CASE WHEN looked.gone
            THEN greatest(looked.gone_at + looked.grace - statement_timestamp(), '0')
       END AS grace_left,
       ARRAY(SELECT actors.actor
             FROM stint.actors
             WHERE actors.session = looked.id
             ORDER BY actors.actor) AS actors
FROM looked
