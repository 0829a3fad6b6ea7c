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
