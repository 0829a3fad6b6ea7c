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
-- include attended_actors
ORDER BY actors.actor, actors.since
