-- name: lock_leases
--
-- Locks the leases with these claims, in the order of claim and part. It runs ahead of
-- extend_leases, in the same transaction, so that extend_leases sees what is there after the lock:
-- an expiry that held the lease until just now may have handed on some of its tasks and left the
-- others to it.
--
--   $1 claims  bigint[]
SELECT lease.claim
FROM stint.leases AS lease
WHERE lease.claim = ANY ($1::bigint[])
ORDER BY lease.claim, lease.part
FOR NO KEY UPDATE
