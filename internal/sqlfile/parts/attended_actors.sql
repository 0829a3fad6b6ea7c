-- part: attended_actors
--
-- The actors whose session lives, their own or that of the store which attends them. Where nobody
-- maintains, nobody notes that a session is gone, but its lock is. A standby does not know the
-- locks.
FROM stint.actors
CROSS JOIN LATERAL (
    SELECT sessions.id, sessions.gone_at
    FROM stint.sessions
    WHERE sessions.id = actors.attendant
    OFFSET 0
) AS session
WHERE session.gone_at IS NULL
  AND (pg_is_in_recovery() OR session.id IN (
      -- include living_sessions
  ))
