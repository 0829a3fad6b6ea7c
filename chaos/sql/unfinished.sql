-- name: unfinished
--
-- Returns tasks of a round that have not ended.
SELECT task.id, state.name, task.tries
FROM stint.task_states AS task
JOIN (VALUES (0, 'blocked'), (1, 'scheduled'), (2, 'ready'), (3, 'in progress'))
    AS state (number, name) ON state.number = task.state
WHERE starts_with(task.id, $1)
LIMIT 10000
