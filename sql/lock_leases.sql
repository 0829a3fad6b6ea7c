-- name: lock_leases
--
-- Locks the leases with these claims, ahead of extend_leases in the same transaction: what that
-- sees is then as of after the lock. An expiry that held the lease until just now may have handed
-- on some of its tasks and left it the others.
--
--   $1 claims  bigint[]
--
-- Locks leases in the order of claim and part.
SELECT lease.claim
FROM stint.leases AS lease
WHERE lease.claim = ANY ($1::bigint[])
ORDER BY lease.claim, lease.part
FOR NO KEY UPDATE
