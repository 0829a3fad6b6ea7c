-- name: count_tries
--
-- Returns how many tasks were handed out so far, by action, and how many of these hand-outs were
-- not a task's first, for the $1 actions that were last asked for.
--
--   $1 actions  integer
SELECT action_stats.action, action_stats.tries, action_stats.retries
FROM stint.action_stats
WHERE action_stats.tries > 0
ORDER BY action_stats.asked_at DESC
LIMIT $1::integer
