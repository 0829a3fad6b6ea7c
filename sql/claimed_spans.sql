-- name: claimed_spans
--
-- The keys of the tasks that are owned under claim $1, asked when the answer of own_tasks could not
-- be read: numbers, which always can.
--
--   $1 claim  bigint
SELECT leased.lo, leased.hi
FROM (
    -- A subscript of an array that is packed unpacks all of it: that is done here, once.
    SELECT leases.claim, leases.spans || '{}'::bigint[] AS spans
    FROM stint.leases
    WHERE leases.claim = $1::bigint
    OFFSET 0
) AS lease
CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
CROSS JOIN LATERAL (
    SELECT leased.lo, leased.hi
    FROM stint.leased
    WHERE leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
      AND leased.claim = lease.claim
    OFFSET 0
) AS leased
