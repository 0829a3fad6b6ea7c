-- name: count_tasks
--
-- How many tasks are in each state but ready, by action, among the last $1 + 1 spans of each table:
-- all of them, unless there are so many. States are those of task_states, but all aborted tasks are
-- 11. A replaced task, which has left its definition to its successor, has no action.
--
--   $1 spans  integer
--
-- The last, since the first entries of an index are those that die first.
WITH head AS (
    (SELECT 0 AS state, blocked.key AS lo, blocked.key AS hi
     FROM stint.blocked
     ORDER BY blocked.key DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT 1, scheduled.key, scheduled.key
     FROM stint.scheduled
     ORDER BY scheduled.key DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT 3, leased.lo, leased.hi
     FROM stint.leased
     ORDER BY leased.lo DESC
     LIMIT $1::integer + 1)
    UNION ALL
    (SELECT CASE finished.cause WHEN 0 THEN 10 ELSE 11 END, finished.lo, finished.hi
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
    WHERE tasks.key = head.lo
    OFFSET 0
) AS task ON true
GROUP BY head.state, task.action
