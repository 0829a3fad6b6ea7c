-- name: claim_spent
--
-- Returns a row if claim $1 is spent. It follows remember_claim, which waits for a spend_claim that
-- is about to commit.
--
--   $1 claim  bigint
SELECT true
FROM stint.leases
WHERE leases.claim = $1::bigint AND leases.part = -1 AND leases.size < 0
