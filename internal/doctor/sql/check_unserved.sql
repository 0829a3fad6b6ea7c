-- name: check_unserved
--
-- Returns the actions with ready tasks that nobody has asked for in two minutes and that no actor
-- is registered for: how many tasks, how long ago the oldest was inserted, and how long ago
-- somebody last asked.
SELECT waiting.action, waiting.tasks, waiting.oldest,
       statement_timestamp() - action_stats.asked_at AS asked
FROM (
    SELECT ready.action, sum(ready.hi - ready.lo + 1)::bigint AS tasks,
           statement_timestamp() - min(tasks.inserted_at) AS oldest
    FROM stint.ready
    JOIN stint.tasks ON tasks.key = ready.lo
    GROUP BY ready.action
) AS waiting
LEFT JOIN stint.action_stats ON action_stats.action = waiting.action
WHERE (action_stats.asked_at IS NULL
       OR action_stats.asked_at < statement_timestamp() - interval '2 minutes')
  AND NOT EXISTS (
      SELECT
      FROM stint.actors
      JOIN stint.sessions ON sessions.id = actors.attendant AND sessions.gone_at IS NULL
      WHERE waiting.action = ANY (actors.actions)
  )
ORDER BY waiting.oldest DESC
LIMIT 100
