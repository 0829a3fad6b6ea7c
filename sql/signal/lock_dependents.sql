-- name: lock_dependents
--
-- Locks the tasks that settle_tasks will count down or end, ahead of it.
--
--   $1 batch  bigint
--   $2 round  integer
--
-- All are locked in the order of their keys, so that transactions that share dependents do not
-- deadlock, as far ahead as can be seen without counting the signals that arrive from several
-- sides: the tasks that an abort brings down, and the dependents of spontaneous and of deleted
-- tasks that wait for nothing else.
WITH RECURSIVE reached (key, fate, signals, verdict) AS (
    -- The recursion begins with the tasks that have signals, and with the dependents of the tasks
    -- that end. fate is how the task ends from which a dependent is reached: 0 it completes, 1 it
    -- is aborted, 5 it is replaced, 7 it is deleted, 8 it is skipped. verdict is that of settling;
    -- null of an ordinary edge.
    SELECT settling.key,
           CASE WHEN settling.verdict & 16 <> 0 THEN 7 ELSE settling.spoiled::integer END,
           settling.signals, settling.verdict & 15
    FROM stint.settling
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NULL
    UNION
    SELECT edge.run,
           CASE
               WHEN settling.cause IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */,
                                       8 /* skipped */)
               THEN settling.cause
               WHEN edge.accepts & 10 <> 0 THEN 0
               ELSE 1 /* aborted */
           END, 1,
           CASE WHEN edge.accepts IS NOT NULL THEN
               -- include verdict_of_condition: edge=edge; cause=settling.cause; result=''
           END
    FROM stint.settling
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts, edges.results
        FROM stint.edges
        WHERE edges.after = settling.key
        OFFSET 0
    ) AS edge
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
      AND settling.cause IS NOT NULL
    UNION
    -- A task ends in its turn if an abort brings it down, or its condition is not met, or if it is
    -- spontaneous, or a deletion has reached it, and it waits for nothing but the signals that are
    -- there. One that is not blocked has ended before.
    SELECT edge.run, CASE WHEN task.fate = 1 AND edge.accepts & 10 <> 0 THEN 0 ELSE task.fate END,
           1,
           CASE WHEN edge.accepts IS NOT NULL THEN
               -- include verdict_of_condition: edge=edge; cause=task.fate; result=''
           END
    FROM reached
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN reached.fate = 1 /* aborted */ AND tasks.on_abort = 0
                        AND (SELECT true FROM stint.blocked WHERE blocked.key = reached.key)
                   THEN 1 /* aborted */
                   WHEN reached.verdict & 1 <> 0
                        OR reached.verdict IS NULL AND reached.fate = 8 /* skipped */
                           AND tasks.on_abort = 0
                   THEN 8 /* skipped */
                   WHEN reached.verdict & 2 <> 0 AND tasks.action = 'stint.Spontaneous'
                   THEN 0 /* completed */
                   WHEN (reached.fate = 7 /* deleted */ OR reached.verdict = 4
                         OR tasks.action = 'stint.Spontaneous')
                        AND (SELECT blocked.missing
                             FROM stint.blocked
                             WHERE blocked.key = reached.key) <= reached.signals
                   THEN CASE
                            WHEN reached.fate = 7 /* deleted */ THEN 7 /* deleted */
                            WHEN reached.verdict = 4 THEN 8 /* skipped */
                            ELSE 0 /* completed */
                        END
               END AS fate
        FROM stint.tasks
        WHERE tasks.key = reached.key
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts, edges.results
        FROM stint.edges
        WHERE edges.after = reached.key
        OFFSET 0
    ) AS edge
    WHERE task.fate IS NOT NULL
)
SELECT blocked.key
FROM (SELECT DISTINCT reached.key FROM reached ORDER BY reached.key) AS target
CROSS JOIN LATERAL (
    SELECT blocked.key FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
) AS blocked
