-- name: promote_scheduled
--
-- Makes up to $1 scheduled tasks ready whose time has come, the longest due first. Spontaneous ones
-- complete instead (R14): they go into round $3 of settling.
--
--   $1 tasks  integer
--   $2 batch  bigint
--   $3 round  integer
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
), defined AS MATERIALIZED (
    SELECT due.*, task.action, task.priority, task.deadline
    FROM due
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline
        FROM stint.tasks
        WHERE tasks.key = due.key
        OFFSET 0
    ) AS task
), spontaneous AS (
    INSERT INTO stint.settling (batch, round, key, cause, tries, completed, aborted)
    SELECT $2::bigint, $3::integer, defined.key, 0, defined.tries, defined.completed,
           defined.aborted
    FROM defined
    WHERE defined.action = 'stint.Spontaneous'
), queued AS (
    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority, deadline,
                             status)
    SELECT defined.key, defined.key, defined.claim, defined.tries, defined.completed,
           defined.aborted, defined.action, defined.priority, defined.deadline, defined.status
    FROM defined
    WHERE defined.action <> 'stint.Spontaneous'
    ORDER BY defined.not_before, defined.key
)
SELECT defined.key FROM defined
