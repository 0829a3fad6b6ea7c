-- name: promote_scheduled
--
-- Makes up to $1 scheduled tasks ready whose time has come, the longest due first.
--
--   $1 tasks  integer
WITH due AS MATERIALIZED (
    SELECT scheduled.*
    FROM stint.scheduled
    WHERE scheduled.not_before <= statement_timestamp()
    ORDER BY scheduled.not_before
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT due.key FROM due))
)
INSERT INTO stint.ready (lo, hi, claim, tries, action, priority, deadline, status)
SELECT due.key, due.key, due.claim, due.tries, task.action, task.priority, task.deadline, due.status
FROM due
CROSS JOIN LATERAL (
    SELECT tasks.action, tasks.priority, tasks.deadline
    FROM stint.tasks
    WHERE tasks.key = due.key
    OFFSET 0
) AS task
ORDER BY due.not_before, due.key
