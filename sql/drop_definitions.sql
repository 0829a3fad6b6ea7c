-- name: drop_definitions
--
-- Frees the IDs of tasks that are replaced or deleted. What else there is of them goes by
-- erase_tasks if they are final; otherwise settle_tasks ends them, behind the insert of those that
-- replace them.
--
--   $1 keys  bigint[], sorted
WITH definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY ($1::bigint[])
    RETURNING tasks.key, tasks.deadline
)
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
