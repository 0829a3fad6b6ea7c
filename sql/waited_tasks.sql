-- name: waited_tasks
--
-- Returns those of the tasks with keys $1, which somebody waits for, that have finished, and those
-- that were deleted, with a null for their cause.
--
--   $1 keys  bigint[]
SELECT named.key, finished.cause, finished.tries, finished.actor, finished.finished_at,
       finished.status, finished.result
FROM unnest($1::bigint[]) AS named (key)
LEFT JOIN LATERAL (
    SELECT finished.*
    FROM stint.finished
    -- A task that posts its result is alone in its span.
    WHERE finished.lo = named.key
    OFFSET 0
) AS finished ON true
-- The definition of a replaced task is gone, too, but the task is in finished.
WHERE finished.lo IS NOT NULL
   OR (SELECT true FROM stint.tasks WHERE tasks.key = named.key) IS NULL
