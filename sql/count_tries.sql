-- name: count_tries
--
-- How many tasks were handed out so far, by action, of the $1 actions last asked for.
--
--   $1 actions  integer
SELECT action_stats.action, action_stats.tries, action_stats.retries
FROM stint.action_stats
WHERE action_stats.tries > 0
ORDER BY action_stats.asked_at DESC
LIMIT $1::integer
