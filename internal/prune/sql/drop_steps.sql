-- name: drop_steps
--
-- Deletes the steps of tasks that are gone. It looks at the next tasks that have steps, in the
-- order of their keys, and returns how many these were and the key of the last one. Statements that
-- prune or drop finished tasks leave this to it, so that they cost nothing where there are no
-- steps.
--
--   $1 after  bigint: the key of the last task that was looked at
--   $2 most   integer: how many tasks to look at
WITH RECURSIVE walk (key) AS (
    (SELECT steps.key FROM stint.steps WHERE steps.key > $1::bigint ORDER BY steps.key LIMIT 1)
    UNION ALL
    -- From one task to the next, however many steps each has.
    SELECT (
        SELECT steps.key FROM stint.steps WHERE steps.key > walk.key ORDER BY steps.key LIMIT 1
    )
    FROM walk
    WHERE walk.key IS NOT NULL
), looked AS MATERIALIZED (
    SELECT walk.key FROM walk WHERE walk.key IS NOT NULL LIMIT $2::integer
), gone AS (
    DELETE FROM stint.steps
    WHERE steps.key = ANY (ARRAY(
        SELECT looked.key
        FROM looked
        WHERE (SELECT true FROM stint.tasks WHERE tasks.key = looked.key) IS NULL
    ))
)
SELECT count(*) AS looked, max(looked.key) AS last FROM looked
