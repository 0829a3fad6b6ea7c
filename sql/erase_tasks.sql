-- name: erase_tasks
--
-- Removes the definitions of tasks, their deadlines and, if $2 says so, the record of their end.
-- Returns the keys that were there.
--
--   $1 keys  bigint[], sorted
--   $2 record  boolean
WITH definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY ($1::bigint[])
    RETURNING tasks.key, tasks.deadline
), limited AS (
    DELETE FROM stint.deadlines
    USING (
        SELECT deadline.tid
        FROM definition
        CROSS JOIN LATERAL (
            SELECT deadlines.ctid AS tid
            FROM stint.deadlines
            WHERE deadlines.deadline = definition.deadline AND deadlines.key = definition.key
            OFFSET 0
        ) AS deadline
    ) AS limits
    WHERE deadlines.ctid = limits.tid
), recorded AS (
    DELETE FROM stint.finished
    WHERE $2::boolean AND finished.key = ANY ($1::bigint[])
)
SELECT definition.key FROM definition
