-- name: inputs
--
-- Returns how the predecessors of a task ended, with their results. A spontaneous predecessor that
-- completed is left out, and the tasks that it waited for come in its place.
--
--   $1 key  bigint
WITH RECURSIVE behind (after) AS (
    SELECT edges.after FROM stint.edges WHERE edges.run = $1::bigint
    UNION
    SELECT edge.after
    FROM behind
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = behind.after OFFSET 0
    ) AS edge
    -- A spontaneous task that completed is alone in its span.
    WHERE (SELECT tasks.action FROM stint.tasks WHERE tasks.key = behind.after)
              = 'stint.Spontaneous'
      AND (SELECT finished.cause FROM stint.finished WHERE finished.lo = behind.after)
              = 0 /* completed */
)
SELECT task.id, task.action, ended.cause, ended.status, ended.result
FROM behind
CROSS JOIN LATERAL (
    SELECT tasks.id, tasks.action FROM stint.tasks WHERE tasks.key = behind.after OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT finished.hi, finished.cause, finished.status, finished.result
    FROM stint.finished
    WHERE finished.lo BETWEEN behind.after >> 10 << 10 AND behind.after
    ORDER BY finished.lo DESC
    LIMIT 1
) AS ended
WHERE ended.hi >= behind.after
  AND (task.action <> 'stint.Spontaneous' OR ended.cause <> 0 /* completed */)
-- In the order of keys, tasks of one insert that are alike come as they were inserted.
ORDER BY behind.after
