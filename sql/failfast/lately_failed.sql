-- name: lately_failed
--
-- Returns the tasks that have what only they need aborted when they are, and that were aborted
-- lately and not settled since, with when they ended. However many such tasks there are, it looks
-- only at what was aborted, and at nothing where there are none. What commits long after it ended
-- is left to find_failed.
--
--   $1 lately  interval: how long ago at most
--   $2 most    integer: how many rows of aborted tasks to look at, the latest ones
SELECT fast.key, aborted.finished_at
FROM (
    SELECT finished.lo, finished.hi, finished.finished_at
    FROM stint.finished
    WHERE finished.cause <> 0 /* completed */ AND finished.cause <> 8 /* skipped */
      AND finished.finished_at > statement_timestamp() - $1::interval
      AND (SELECT true FROM stint.fail_fast WHERE fail_fast.key > 0 LIMIT 1)
    ORDER BY finished.finished_at DESC
    LIMIT $2::integer
) AS aborted
CROSS JOIN LATERAL (
    SELECT fail_fast.key, fail_fast.settled_at
    FROM stint.fail_fast
    WHERE fail_fast.key BETWEEN aborted.lo AND aborted.hi
    OFFSET 0
) AS fast
WHERE fast.settled_at IS DISTINCT FROM aborted.finished_at
