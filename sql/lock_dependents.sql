-- name: lock_dependents
--
-- Locks the tasks that settle_tasks will count down or end, ahead of it.
--
--   $1 batch  bigint
--   $2 round  integer
--
-- All of them in the order of their keys, so that transactions that share dependents do not
-- deadlock, as far ahead as can be seen without counting what arrives from several sides: what an
-- abort brings down, and what comes behind spontaneous tasks and deleted ones that wait for nothing
-- else. fate is how the task ends that a dependent is reached from: 0 it completes, 1 it is
-- aborted, 5 replaced, 7 deleted.
WITH RECURSIVE reached (key, fate, signals) AS (
    SELECT settling.key, settling.spoiled::integer, settling.signals
    FROM stint.settling
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NULL
    UNION
    SELECT edge.run, CASE WHEN settling.cause IN (0, 5, 7) THEN settling.cause ELSE 1 END, 1
    FROM stint.settling
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = settling.key OFFSET 0
    ) AS edge
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NOT NULL
    UNION
    SELECT edge.run, task.fate, 1
    FROM reached
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN reached.fate = 1 AND tasks.on_abort = 0 THEN 1
                   WHEN (reached.fate = 7 OR tasks.action = 'stint.Spontaneous')
                        AND (SELECT blocked.missing
                             FROM stint.blocked
                             WHERE blocked.key = reached.key) <= reached.signals
                   THEN CASE WHEN reached.fate = 7 THEN 7 ELSE 0 END
               END AS fate
        FROM stint.tasks
        WHERE tasks.key = reached.key
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = reached.key OFFSET 0
    ) AS edge
    WHERE task.fate IS NOT NULL
)
SELECT blocked.key
FROM (SELECT DISTINCT reached.key FROM reached ORDER BY reached.key) AS target
CROSS JOIN LATERAL (
    SELECT blocked.key FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
) AS blocked
