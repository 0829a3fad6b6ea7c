-- name: ends
--
-- Returns how, and when, the tasks of a round have ended, and those that have not.
SELECT task.id,
       CASE task.state
           WHEN 0 THEN 'blocked' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ready'
           WHEN 3 THEN 'in-progress' WHEN 10 THEN 'completed' WHEN 18 THEN 'skipped'
           ELSE 'aborted'
       END,
       CASE task.state
           WHEN 11 THEN 'returned' WHEN 12 THEN 'tries' WHEN 13 THEN 'dependency'
           WHEN 14 THEN 'cancelled' WHEN 15 THEN 'replaced' WHEN 16 THEN 'expired'
           WHEN 19 THEN 'lost' ELSE ''
       END,
       CASE WHEN task.state < 10 THEN 0
            ELSE (extract(epoch FROM task.until) * 1000000)::bigint END
FROM stint.task_states AS task
WHERE starts_with(task.id, $1)
