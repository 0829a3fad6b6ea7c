-- name: list_actors
--
-- Returns the actors that are registered at a session that lives, or attended by a store whose
-- session does, with how many tasks each owns.
SELECT actors.actor, actors.actions,
       (SELECT coalesce(sum(part.tasks), 0)::bigint
        FROM (
            -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
            SELECT leases.claim, leases.part, leases.spans || '{}'::bigint[] AS spans
            FROM stint.leases
            WHERE leases.session = actors.session AND leases.actor = actors.actor
            OFFSET 0
        ) AS lease
        CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
        CROSS JOIN LATERAL (
            SELECT sum(leased.hi - leased.lo + 1) AS tasks
            FROM stint.leased
            WHERE leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
              AND leased.claim = lease.claim AND leased.part = lease.part
        ) AS part) AS tasks,
       actors.since
FROM stint.actors
CROSS JOIN LATERAL (
    SELECT sessions.id, sessions.gone_at
    FROM stint.sessions
    WHERE sessions.id = actors.attendant
    OFFSET 0
) AS session
WHERE session.gone_at IS NULL
  -- Where nobody maintains, nobody notes that a session is gone, but its lock is. A standby does
  -- not know the locks.
  AND (pg_is_in_recovery() OR session.id IN (
      SELECT classid::bigint << 32 | objid::bigint
      FROM pg_locks
      WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  ))
ORDER BY actors.actor, actors.since
