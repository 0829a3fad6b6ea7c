-- name: waited_tasks
--
-- Returns those of the tasks with keys $1, which somebody waits for, that have finished, and those
-- that were deleted, with a null for their cause.
--
--   $1 keys   bigint[]
--   $2 piece  integer
--   $3 mosts  integer[]: for each task, how long a result may be that is wanted at all
--
-- A longer result is left out, and not read; a column says how long it is.
--
-- A long result comes in pieces of $2 bytes, a row for each, so that the caller sees that there is
-- progress: with how long it is, and where the piece begins.
SELECT named.key, finished.cause, finished.tries, finished.actor, finished.finished_at,
       finished.status, octet_length(finished.result) AS size, piece.begins,
       substring(finished.result, piece.begins + 1, $2::integer), finished.unwanted,
       finished.owned_at
FROM unnest($1::bigint[], $3::integer[]) AS named (key, most)
LEFT JOIN LATERAL (
    SELECT finished.lo, finished.cause, finished.tries, finished.actor, finished.finished_at,
           finished.status, finished.owned_at,
           CASE WHEN octet_length(finished.result) <= named.most
               -- || reads and unpacks the result once, for all of its pieces.
               THEN finished.result || ''::bytea
           END AS result,
           CASE WHEN octet_length(finished.result) > named.most
               THEN octet_length(finished.result)
           END AS unwanted
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
