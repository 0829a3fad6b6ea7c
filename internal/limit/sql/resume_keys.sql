-- name: resume_keys
--
-- Ends the pauses of keys of an action.
--
--   $1 action  text
--   $2 keys    text[]
UPDATE stint.limited_keys
SET paused_at = NULL
WHERE limited_keys.action = $1::text AND limited_keys.limit_key = ANY ($2::text[])
  AND limited_keys.paused_at IS NOT NULL
