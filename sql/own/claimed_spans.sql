-- name: claimed_spans
--
-- Returns the keys of the tasks that are owned under claim $1. The caller asks when it could not
-- read the answer of own_tasks: numbers can always be read.
--
--   $1 claim  bigint
SELECT leased.lo, leased.hi
FROM (
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
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
