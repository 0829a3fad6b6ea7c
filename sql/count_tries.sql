-- name: count_tries
--
-- How many tasks were handed out so far, by action, of the $1 actions last asked for.
--
--   $1 actions  integer
SELECT asked.action, asked.tries, asked.retries
FROM stint.asked
WHERE asked.tries > 0
ORDER BY asked.asked_at DESC
LIMIT $1::integer
