-- name: scan_task_deadlines
--
-- Scans the first $1 absolute deadlines behind the place $2, $3 that have passed. Deletes those
-- whose tasks have ended, and leaves the others to end_due_tasks (R6). Returns the place of the
-- last one (null if there are no more), how many it deleted, no actions, and the keys of the
-- others.
--
--   $1 tasks     integer
--   $2 deadline  timestamptz
--   $3 key       bigint: the place, as in promote_scheduled
WITH scan AS MATERIALIZED (
    -- A task with a deadline is alone in its span, so its key is the lo of its row.
    SELECT deadlines.deadline, deadlines.key,
           (SELECT true FROM stint.ready WHERE ready.lo = deadlines.key) IS NULL
           AND (SELECT true FROM stint.scheduled WHERE scheduled.key = deadlines.key) IS NULL
           AND (SELECT true FROM stint.leased WHERE leased.lo = deadlines.key) IS NULL
           AND (SELECT true FROM stint.blocked WHERE blocked.key = deadlines.key) IS NULL AS ended
    FROM stint.deadlines
    WHERE deadlines.deadline <= statement_timestamp()
      AND (deadlines.deadline, deadlines.key) OPERATOR(pg_catalog.>) ($2::timestamptz, $3::bigint)
    ORDER BY deadlines.deadline, deadlines.key
    LIMIT $1::integer
), gone AS (
    DELETE FROM stint.deadlines
    USING (
        SELECT locked.tid
        FROM scan
        CROSS JOIN LATERAL (
            SELECT deadlines.ctid AS tid
            FROM stint.deadlines
            WHERE deadlines.deadline = scan.deadline AND deadlines.key = scan.key
            FOR UPDATE SKIP LOCKED
        ) AS locked
        WHERE scan.ended
    ) AS passed
    WHERE deadlines.ctid = passed.tid
    RETURNING deadlines.key
)
SELECT last.deadline, last.key,
       (SELECT count(*) FROM gone) AS done,
       '{}'::text[] AS actions,
       ARRAY(SELECT scan.key FROM scan WHERE NOT scan.ended) AS due
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT scan.deadline, scan.key
    FROM scan
    ORDER BY scan.deadline, scan.key
    OFFSET $1::integer - 1
) AS last ON true
