-- name: promote_scheduled
--
-- Makes up to $1 scheduled tasks ready whose time has come, the longest due first. Spontaneous ones
-- are left to end_due_tasks: settling them may have to wait for somebody. Returns their actions.
--
--   $1 tasks  integer
WITH due AS MATERIALIZED (
    SELECT scheduled.*, task.action, task.priority, task.deadline
    FROM stint.scheduled
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline
        FROM stint.tasks
        WHERE tasks.key = scheduled.key
        OFFSET 0
    ) AS task
    WHERE scheduled.not_before <= statement_timestamp() AND task.action <> 'stint.Spontaneous'
    ORDER BY scheduled.not_before
    LIMIT $1::integer
    FOR UPDATE OF scheduled SKIP LOCKED
), gone AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT due.key FROM due))
)
INSERT INTO stint.ready
    (lo, hi, claim, tries, completed, aborted, action, priority, deadline, status)
SELECT due.key, due.key, due.claim, due.tries, due.completed, due.aborted, due.action, due.priority,
       due.deadline, due.status
FROM due
ORDER BY due.not_before, due.key
RETURNING ready.action
