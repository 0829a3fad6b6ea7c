-- name: sweep_leases
--
-- Drops up to $1 leases without a deadline whose tasks have all been returned. Leases with a
-- deadline go when it passes.
--
--   $1 leases  integer
WITH empty AS MATERIALIZED (
    SELECT lease.ctid AS tid
    FROM stint.leases AS lease
    WHERE lease.deadline = 'infinity'
      AND NOT EXISTS (
          SELECT
          FROM generate_subscripts(lease.spans, 1) AS span (n)
          JOIN stint.leased
            ON leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
          WHERE leased.claim = lease.claim AND leased.part = lease.part
      )
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM stint.leases
USING empty
WHERE leases.ctid = empty.tid
