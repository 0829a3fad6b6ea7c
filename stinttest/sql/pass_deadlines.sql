-- name: pass_deadlines
--
-- Lets the absolute deadlines of the tasks with IDs $1 pass now. Returns the IDs of those that have
-- one and are unfinished.
--
--   $1 ids  text[]
--
-- A deadline is in tasks, in deadlines and, while the task is ready, in its span.
WITH named AS MATERIALIZED (
    SELECT task.key, task.id, task.deadline
    FROM stint.task_states AS task
    WHERE task.id = ANY ($1::text[]) AND task.deadline IS NOT NULL
      AND task.state < 10 -- not final
), defined AS (
    UPDATE stint.tasks
    SET deadline = statement_timestamp()
    FROM named
    WHERE tasks.key = named.key
), watched AS (
    UPDATE stint.deadlines
    SET deadline = statement_timestamp()
    FROM named
    WHERE deadlines.deadline = named.deadline AND deadlines.key = named.key
), queued AS (
    UPDATE stint.ready
    SET deadline = statement_timestamp()
    FROM named
    WHERE ready.lo = named.key
)
SELECT named.id FROM named
