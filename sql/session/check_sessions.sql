-- name: check_sessions
--
-- Looks whether the sessions live, and notes those that are gone: the lock of a session that lives
-- cannot be had. Returns for each session whether it lives and watches the others, how much of its
-- grace is left (null if it lives, 0 if nothing is left), and which actors are registered at it if
-- nothing is left: somebody looks ten times a second, and there may be thousands of actors.
WITH looked AS MATERIALIZED (
    -- A lock that can be had is held until the transaction ends, so that the session cannot come
    -- back while its absence is noted. If two transactions look at the same time, one of them
    -- believes that the session lives.
    -- One that has gone in the future, since the clock was ahead, has gone now.
    SELECT sessions.id, least(sessions.gone_at, statement_timestamp()) AS gone_at,
           coalesce(sessions.gone_at > statement_timestamp(), true) AS fresh,
           sessions.grace, sessions.watches,
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
               AND looked.gone AND looked.gone_at + looked.grace <= statement_timestamp()
             ORDER BY actors.actor) AS actors
FROM looked
