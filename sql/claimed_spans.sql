-- name: claimed_spans
--
-- The keys of the tasks that are owned under claim $1, asked when the answer of own_tasks could not be
-- read: numbers, which always can.
--
--   $1 claim  bigint
SELECT leased.lo, leased.hi
FROM stint.leases AS lease
CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
CROSS JOIN LATERAL (
    SELECT leased.lo, leased.hi
    FROM stint.leased
    WHERE leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
      AND leased.claim = lease.claim
    OFFSET 0
) AS leased
WHERE lease.claim = $1::bigint
