-- name: waited_tasks
--
-- Of the tasks with keys $1, which somebody waits for: those that have finished, and those that
-- were deleted, whose cause is null.
--
--   $1 keys  bigint[]
--
-- A replaced task has left its definition to its successor, but it is in finished. One that posts
-- its result is alone in its span.
SELECT named.key, finished.cause, finished.tries, finished.actor, finished.finished_at,
       finished.status, finished.result
FROM unnest($1::bigint[]) AS named (key)
LEFT JOIN LATERAL (
    SELECT finished.*
    FROM stint.finished
    WHERE finished.lo = named.key
    OFFSET 0
) AS finished ON true
WHERE finished.lo IS NOT NULL
   OR (SELECT true FROM stint.tasks WHERE tasks.key = named.key) IS NULL
