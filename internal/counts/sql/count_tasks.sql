-- name: count_tasks
--
-- Counts the tasks in each state but ready, by action, among the last $1 + 1 spans of each table:
-- all tasks, unless there are more spans. States are those of task_states, but all aborted tasks
-- are 11. A replaced task has no action, since its definition is gone.
--
--   $1 spans    integer
--   $2 without  smallint[]: states of which only the spans are to be counted, since they are known
--               to be many; 10 stands for all of the table finished
WITH head AS MATERIALIZED (
    -- The last spans, since the first entries of an index are those that die first.
    (SELECT 0 /* blocked */ AS state, 0 AS part, blocked.key AS lo, blocked.key AS hi
     FROM stint.blocked
     ORDER BY blocked.key DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT 1 /* scheduled */, 1, scheduled.key, scheduled.key
     FROM stint.scheduled
     ORDER BY scheduled.key DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT 3 /* in progress */, 3, leased.lo, leased.hi
     FROM stint.leased
     ORDER BY leased.lo DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT CASE finished.cause
                WHEN 0 /* completed */ THEN 10 /* completed */
                WHEN 8 /* skipped */ THEN 18 /* skipped */
                ELSE 11 /* aborted */
            END,
            10, finished.lo, finished.hi
     FROM stint.finished
     ORDER BY finished.lo DESC
     LIMIT $1::integer + 1)
)
SELECT head.state, task.action, sum(head.hi - head.lo + 1)::bigint AS tasks,
       count(*) AS spans
FROM head
LEFT JOIN LATERAL (
    SELECT tasks.action
    FROM stint.tasks
    WHERE tasks.key = head.lo AND head.part <> ALL ($2::smallint[])
    OFFSET 0
) AS task ON true
GROUP BY head.state, task.action
