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

-- name: owned_task
--
-- Returns key and claim of a task if it is owned with that claim.
--
--   $1 key    bigint
--   $2 claim  bigint
SELECT $1::bigint, span.claim
FROM (
    -- include span_of_key: table=leased; key=$1::bigint; columns=leased.hi, leased.claim
) AS span
WHERE span.hi >= $1::bigint AND span.claim = $2::bigint

-- name: set_status
--
-- Sets the status text and the progress of a task, if it is owned with that claim.
--
--   $1 key       bigint; the task must have been split off its span
--   $2 claim     bigint
--   $3 status    text
--   $4 progress  real
UPDATE stint.leased
SET status = $3::text, progress = $4::real
WHERE leased.lo = $1::bigint AND leased.hi = $1::bigint AND leased.claim = $2::bigint
RETURNING leased.lo, leased.claim
