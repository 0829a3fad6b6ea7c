-- name: lock_dependents
--
-- Locks the tasks that settle_tasks will count down or end, ahead of it.
--
--   $1 batch  bigint
--   $2 round  integer
--
-- All of them in the order of their keys, so that transactions that share dependents do not
-- deadlock; and not only those of this round, but as far ahead as can be seen: what an abort brings
-- down, and a few steps of what comes behind spontaneous tasks that get their last signal. fate is
-- how the task ends that a dependent is reached from: 0 it completes, 1 it is aborted, 5 replaced,
-- 7 deleted.
WITH RECURSIVE reached (key, fate, signals, depth) AS (
    SELECT settling.key, settling.spoiled::integer, settling.signals, 0
    FROM stint.settling
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NULL
    UNION
    SELECT edge.run, CASE WHEN settling.cause IN (0, 5, 7) THEN settling.cause ELSE 1 END, 1, 0
    FROM stint.settling
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = settling.key OFFSET 0
    ) AS edge
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NOT NULL
    UNION
    SELECT edge.run, CASE WHEN reached.fate = 5 THEN 0 ELSE reached.fate END, 1,
           CASE WHEN reached.fate = 1 THEN 0 ELSE reached.depth + 1 END
    FROM reached
    CROSS JOIN LATERAL (
        SELECT tasks.on_abort, tasks.action FROM stint.tasks WHERE tasks.key = reached.key OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = reached.key OFFSET 0
    ) AS edge
    WHERE CASE WHEN reached.fate = 1 AND task.on_abort = 0 THEN true
               WHEN reached.depth < 8
                    AND (reached.fate = 7 OR task.action = 'stint.Spontaneous') THEN
                   (SELECT blocked.missing FROM stint.blocked WHERE blocked.key = reached.key)
                       <= reached.signals
          END
)
SELECT blocked.key
FROM (SELECT DISTINCT reached.key FROM reached ORDER BY reached.key) AS target
CROSS JOIN LATERAL (
    SELECT blocked.key FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
) AS blocked
