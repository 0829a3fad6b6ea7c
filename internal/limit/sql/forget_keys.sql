-- name: forget_keys
--
-- Deletes the rows of keys that are not paused and have the usual weight.
--
--   $1 action  text
--   $2 keys    text[]
DELETE FROM stint.limited_keys
WHERE limited_keys.action = $1::text AND limited_keys.limit_key = ANY ($2::text[])
  AND limited_keys.paused_at IS NULL AND limited_keys.weight = 1
