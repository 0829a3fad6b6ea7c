-- name: inputs
--
-- Returns how the predecessors of tasks ended, with their results if $2 says so. A spontaneous
-- predecessor that completed is left out, and the tasks that it waited for come in its place.
--
--   $1 keys     bigint[]
--   $2 results  boolean
WITH RECURSIVE behind (key, after) AS (
    SELECT named.key, edge.after
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = named.key OFFSET 0
    ) AS edge
    UNION
    SELECT behind.key, edge.after
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
SELECT behind.key, task.id, ended.cause, ended.status,
       CASE WHEN $2::boolean THEN ended.result END AS result
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
ORDER BY behind.key, behind.after
