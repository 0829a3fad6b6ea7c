-- name: drop_definitions
--
-- Deletes the definitions of tasks that are replaced or deleted, and so frees their IDs, and their
-- deadlines, steps and answer keys. erase_tasks deletes what is left of tasks that are final.
-- settle_tasks ends the others, after those that replace them were inserted. The history of their
-- tries is left to drop_tries.
--
--   $1 keys  bigint[], sorted
WITH definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY ($1::bigint[])
    RETURNING tasks.key, tasks.deadline
), recorded AS (
    DELETE FROM stint.steps WHERE steps.key = ANY ($1::bigint[])
), answerable AS (
    DELETE FROM stint.answer_keys WHERE answer_keys.key = ANY ($1::bigint[])
)
-- include drop_deadlines
