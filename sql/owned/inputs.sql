-- name: inputs
--
-- Returns how the predecessors of a task ended, with their results, their keys, and how many they
-- are. A spontaneous predecessor that completed is left out, and the tasks that it waited for come
-- in its place. Only those with keys from $2 on are returned, and only as many as have $3 bytes
-- together, but at least one.
--
--   $1 key    bigint
--   $2 from   bigint
--   $3 bytes  bigint
WITH RECURSIVE behind (after) AS (
    -- OFFSET 0 is a fence: UNION would have rows in order, which a walk through edges_after has.
    SELECT edge.after
    FROM (SELECT edges.after FROM stint.edges WHERE edges.run = $1::bigint OFFSET 0) AS edge
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
SELECT input.id, input.action, input.cause, input.status, input.result, input.key, input.inputs
FROM (
    SELECT task.id, task.action, ended.cause, ended.status, ended.result, behind.after AS key,
           count(*) OVER () AS inputs,
           row_number() OVER (ORDER BY behind.after) AS place,
           -- No value is read for its length.
           sum(octet_length(task.id)::bigint + octet_length(task.action)
                   + coalesce(octet_length(ended.status), 0)
                   + coalesce(octet_length(ended.result), 0))
               OVER (ORDER BY behind.after) AS bytes
    FROM behind
    CROSS JOIN LATERAL (
        SELECT tasks.id, tasks.action FROM stint.tasks WHERE tasks.key = behind.after OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=behind.after;
        --   columns=finished.hi, finished.cause, finished.status, finished.result
    ) AS ended
    WHERE behind.after >= $2::bigint
      AND ended.hi >= behind.after
      AND (task.action <> 'stint.Spontaneous' OR ended.cause <> 0 /* completed */)
      -- The gate of an insert over several shards: nobody has asked to wait for it.
      AND NOT starts_with(task.id, 'stint.gate/')
) AS input
WHERE input.place = 1 OR input.bytes <= $3::bigint
-- In the order of keys, tasks of one insert that are alike come as they were inserted.
ORDER BY input.key
