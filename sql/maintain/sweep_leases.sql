-- name: sweep_leases
--
-- Drops up to $1 leases without a deadline whose tasks have all been returned. Leases with a
-- deadline go when it passes.
--
--   $1 leases  integer
WITH empty AS MATERIALIZED (
    SELECT lease.claim, lease.part
    FROM (
        -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
        SELECT leases.claim, leases.part, leases.spans || '{}'::bigint[] AS spans
        FROM stint.leases
        WHERE leases.deadline = 'infinity'
        OFFSET 0
    ) AS lease
    WHERE NOT EXISTS (
        SELECT
        FROM generate_subscripts(lease.spans, 1) AS span (n)
        JOIN stint.leased
          ON leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
        WHERE leased.claim = lease.claim AND leased.part = lease.part
    )
), locked AS MATERIALIZED (
    SELECT lease.tid
    FROM empty
    CROSS JOIN LATERAL (
        SELECT leases.ctid AS tid
        FROM stint.leases
        WHERE leases.claim = empty.claim AND leases.part = empty.part
        FOR UPDATE SKIP LOCKED
    ) AS lease
    LIMIT $1::integer
)
DELETE FROM stint.leases
USING locked
WHERE leases.ctid = locked.tid
