-- name: check_unserved
--
-- Returns the actions with ready tasks that nobody has asked for in two minutes, for which no
-- process that lives waits, and no actor is registered at one: how many tasks, for how long the one
-- that has waited longest has been ready, and how long ago somebody last asked.
SELECT waiting.action, waiting.tasks, waiting.oldest,
       statement_timestamp() - action_stats.asked_at AS asked
FROM (
    SELECT ready.action, sum(ready.hi - ready.lo + 1)::bigint AS tasks,
           statement_timestamp() - min(coalesce(ready.ready_at, tasks.inserted_at)) AS oldest
    FROM stint.ready
    JOIN stint.tasks ON tasks.key = ready.lo
    GROUP BY ready.action
) AS waiting
LEFT JOIN stint.action_stats ON action_stats.action = waiting.action
WHERE (action_stats.asked_at IS NULL
       OR action_stats.asked_at < statement_timestamp() - interval '2 minutes')
  AND NOT EXISTS (
      SELECT
      FROM stint.sessions
      WHERE sessions.gone_at IS NULL
        AND ('ready ' || waiting.action = ANY (sessions.topics)
             OR EXISTS (
                 SELECT
                 FROM stint.actors
                 WHERE actors.attendant = sessions.id AND waiting.action = ANY (actors.actions)
             ))
        -- Where nobody maintains, nobody notes that a session is gone, but its lock is.
        AND sessions.id IN (
            -- include living_sessions
        )
  )
ORDER BY waiting.oldest DESC
LIMIT 100
