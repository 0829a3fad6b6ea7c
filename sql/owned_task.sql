-- name: owned_task
--
-- Key and claim of an owned task, if key, ID and claim belong together.
--
--   $1 key    bigint
--   $2 claim  bigint
--   $3 id     text
SELECT leased.key, leased.claim
FROM stint.leased
WHERE leased.key = $1::bigint
  AND leased.claim = $2::bigint
  AND (SELECT tasks.id FROM stint.tasks WHERE tasks.key = $1::bigint) = $3::text
