-- name: drop_losses
--
-- Deletes the losses of tasks that are gone. It looks at the next tasks that have some, in the
-- order of their keys, and returns how many these were and the key of the last one.
--
--   $1 after  bigint: the key of the last task that was looked at
--   $2 most   integer: how many tasks to look at
WITH looked AS MATERIALIZED (
    SELECT losses.key
    FROM stint.losses
    WHERE losses.key > $1::bigint
    ORDER BY losses.key
    LIMIT $2::integer
), gone AS (
    DELETE FROM stint.losses
    WHERE losses.key = ANY (ARRAY(
        SELECT looked.key
        FROM looked
        WHERE (SELECT true FROM stint.tasks WHERE tasks.key = looked.key) IS NULL
    ))
)
SELECT count(*) AS looked, max(looked.key) AS last FROM looked
