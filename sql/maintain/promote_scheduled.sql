-- name: promote_scheduled
--
-- Scans the first $1 scheduled tasks behind the place $2, $3 whose time has come, and makes them
-- ready, except for spontaneous ones. Returns the place of the last (null if there are no more),
-- how many it made ready and their actions, and the keys of the spontaneous ones.
--
--   $1 tasks       integer
--   $2 not_before  timestamptz
--   $3 key         bigint
WITH scan AS MATERIALIZED (
    -- The place is for tasks that cannot be taken now: however many there are, the next scan reads
    -- the tasks behind them.
    SELECT scheduled.not_before, scheduled.key
    FROM stint.scheduled
    WHERE scheduled.not_before <= statement_timestamp()
      AND (scheduled.not_before, scheduled.key + 0)
          OPERATOR(pg_catalog.>) ($2::timestamptz, $3::bigint)
    ORDER BY scheduled.not_before, scheduled.key + 0
    LIMIT $1::integer
), task AS MATERIALIZED (
    SELECT scan.key, task.action, task.priority, task.deadline
    FROM scan
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline
        FROM stint.tasks
        WHERE tasks.key = scan.key
        OFFSET 0
    ) AS task
), due AS MATERIALIZED (
    -- Spontaneous tasks are left to end_due_tasks, since settling them may have to wait for
    -- somebody. SKIP LOCKED passes over tasks that somebody is busy with.
    SELECT scheduled.*, task.action, task.priority, task.deadline
    FROM task
    CROSS JOIN LATERAL (
        SELECT scheduled.*
        FROM stint.scheduled
        WHERE scheduled.key = task.key AND scheduled.not_before <= statement_timestamp()
        FOR UPDATE SKIP LOCKED
    ) AS scheduled
    WHERE task.action <> 'stint.Spontaneous'
), gone AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT due.key FROM due))
), put AS (
    INSERT INTO stint.ready
        (lo, hi, claim, tries, completed, aborted, action, priority, deadline, status, ready_at)
    SELECT due.key, due.key, due.claim, due.tries, due.completed, due.aborted, due.action,
           due.priority, due.deadline, due.status, due.not_before
    FROM due
    ORDER BY due.not_before, due.key
)
SELECT last.not_before, last.key,
       (SELECT count(*) FROM due) AS done,
       ARRAY(SELECT DISTINCT due.action FROM due) AS actions,
       ARRAY(SELECT task.key FROM task WHERE task.action = 'stint.Spontaneous') AS due
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT scan.not_before, scan.key
    FROM scan
    ORDER BY scan.not_before, scan.key
    OFFSET $1::integer - 1
) AS last ON true
