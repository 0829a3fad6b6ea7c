-- name: hold_ownership
--
-- Locks the rows of owned tasks, so that nobody else can be given the tasks before the transaction
-- ends, but their leases may be extended. Returns key and claim of those that are owned with the
-- claim given.
--
--   $1 keys    bigint[], sorted; the tasks must have been split off their spans
--   $2 claims  bigint[]
SELECT leased.lo, leased.claim
FROM unnest($1::bigint[], $2::bigint[]) AS named (key, claim)
CROSS JOIN LATERAL (
    SELECT leased.lo, leased.claim
    FROM stint.leased
    WHERE leased.lo = named.key AND leased.hi = named.key AND leased.claim = named.claim
    FOR KEY SHARE
) AS leased
