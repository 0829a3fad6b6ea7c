-- name: waited_tasks
--
-- Returns those of the tasks with keys $1, which somebody waits for, that have finished, and those
-- that were deleted, with a null for their cause.
--
--   $1 keys   bigint[]
--   $2 piece  integer
--
-- A long result comes in pieces of $2 bytes, a row for each, so that the caller sees that there is
-- progress: with how long it is, and where the piece begins.
SELECT named.key, finished.cause, finished.tries, finished.actor, finished.finished_at,
       finished.status, octet_length(finished.result) AS size, piece.begins,
       substring(finished.result, piece.begins + 1, $2::integer)
FROM unnest($1::bigint[]) AS named (key)
LEFT JOIN LATERAL (
    SELECT finished.lo, finished.cause, finished.tries, finished.actor, finished.finished_at,
           finished.status,
           -- || reads and unpacks the result once, for all of its pieces.
           finished.result || ''::bytea AS result
    FROM stint.finished
    -- A task that posts its result is alone in its span.
    WHERE finished.lo = named.key
    OFFSET 0
) AS finished ON true
CROSS JOIN LATERAL generate_series(
    0, greatest(octet_length(finished.result) - 1, 0), $2::integer) AS piece (begins)
-- The definition of a replaced task is gone, too, but the task is in finished.
WHERE finished.lo IS NOT NULL
   OR (SELECT true FROM stint.tasks WHERE tasks.key = named.key) IS NULL
