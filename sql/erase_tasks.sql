-- name: erase_tasks
--
-- Removes all that is left of finished tasks. Their edges are settled; they go too.
--
--   $1 keys  bigint[], sorted
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
), outgoing AS (
    DELETE FROM stint.edges WHERE edges.after = ANY ($1::bigint[])
), incoming AS (
    DELETE FROM stint.edges WHERE edges.run = ANY ($1::bigint[])
), joined AS (
    DELETE FROM stint.joined WHERE joined.key = ANY ($1::bigint[])
)
DELETE FROM stint.finished WHERE finished.key = ANY ($1::bigint[])
