-- name: drop_changes
--
-- Deletes the oldest changes that are too old, with their tasks, and returns how many too old ones
-- it has found: none if none is left. A change whose tasks are more than it deletes at once stays
-- until they are gone, so that none is left behind.
--
--   $1 age    interval
--   $2 lines  integer: how many changes to look at
--   $3 tasks  integer: of how many tasks to delete them
WITH old AS MATERIALIZED (
    SELECT changes.number
    FROM stint.changes
    WHERE changes.changed_at < statement_timestamp() - $1::interval
    ORDER BY changes.changed_at
    LIMIT $2::integer
), tasks AS MATERIALIZED (
    SELECT task.tid
    FROM old
    CROSS JOIN LATERAL (
        SELECT changed_tasks.ctid AS tid
        FROM stint.changed_tasks
        WHERE changed_tasks.number = old.number
        OFFSET 0
    ) AS task
    LIMIT $3::integer
), gone AS (
    DELETE FROM stint.changed_tasks
    WHERE changed_tasks.ctid = ANY (ARRAY(SELECT tasks.tid FROM tasks))
), dropped AS (
    DELETE FROM stint.changes
    WHERE (SELECT count(*) FROM tasks) < $3::integer
      AND changes.number = ANY (ARRAY(SELECT old.number FROM old))
)
SELECT count(*) FROM old
