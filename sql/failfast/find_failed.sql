-- name: find_failed
--
-- Looks at the next tasks that have what only they need aborted when they are, in the order of
-- their keys. Returns how many these were and the key of the last one, and of those that were
-- aborted, and not settled since or while others needed something that they wait for, the keys and
-- when they ended. Notes of tasks that are gone are deleted; a task that has completed may be
-- retried.
--
--   $1 after  bigint: the key of the last task that was looked at
--   $2 most   integer: how many tasks to look at
WITH looked AS MATERIALIZED (
    SELECT fail_fast.key, fail_fast.settled_at, fail_fast.shared
    FROM stint.fail_fast
    WHERE fail_fast.key > $1::bigint
    ORDER BY fail_fast.key
    LIMIT $2::integer
), ended AS MATERIALIZED (
    -- A task that was retried ends at another time.
    SELECT looked.key, looked.settled_at, looked.shared,
           (SELECT true FROM stint.tasks WHERE tasks.key = looked.key) AS is_there,
           CASE WHEN span.hi >= looked.key THEN span.cause END AS cause, span.finished_at
    FROM looked
    LEFT JOIN LATERAL (
        -- include span_of_key: table=finished; key=looked.key;
        --   columns=finished.hi, finished.cause, finished.finished_at
    ) AS span ON true
), gone AS (
    DELETE FROM stint.fail_fast
    WHERE fail_fast.key = ANY (ARRAY(
        SELECT ended.key FROM ended WHERE ended.is_there IS NULL
    ))
), failed AS MATERIALIZED (
    SELECT ended.key, ended.finished_at
    FROM ended
    WHERE ended.is_there AND ended.cause NOT IN (0 /* completed */, 8 /* skipped */)
      AND (ended.shared OR ended.finished_at IS DISTINCT FROM ended.settled_at)
)
SELECT (SELECT count(*) FROM looked) AS looked, (SELECT max(looked.key) FROM looked) AS last,
       ARRAY(SELECT failed.key FROM failed ORDER BY failed.key) AS keys,
       ARRAY(SELECT failed.finished_at FROM failed ORDER BY failed.key) AS finished_at
