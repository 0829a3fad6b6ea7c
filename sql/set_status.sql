-- name: set_status
--
-- Sets the status text and the progress of an owned task, if key, ID and claim belong together.
--
--   $1 key       bigint
--   $2 claim     bigint
--   $3 id        text
--   $4 status    text
--   $5 progress  real
UPDATE stint.leased
SET status = $4::text, progress = $5::real
WHERE leased.key = $1::bigint
  AND leased.claim = $2::bigint
  AND (SELECT tasks.id FROM stint.tasks WHERE tasks.key = $1::bigint) = $3::text
RETURNING leased.key, leased.claim
