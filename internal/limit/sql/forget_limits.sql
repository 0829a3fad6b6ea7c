-- name: forget_limits
--
-- Deletes the rows of actions that have no limits and are not paused, nor any of their keys.
--
--   $1 actions  text[]
DELETE FROM stint.limits
WHERE limits.action = ANY ($1::text[]) AND limits.paused_at IS NULL AND NOT limits.fair
  AND num_nonnulls(limits.concurrency, limits.per_key, limits.rate_tasks, limits.key_tasks) = 0
  AND (SELECT true
       FROM stint.limited_keys
       WHERE limited_keys.action = limits.action AND limited_keys.paused_at IS NOT NULL
       LIMIT 1) IS NULL
