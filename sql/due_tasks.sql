-- name: due_tasks
--
-- The first $1 keys behind $2 of tasks that end by themselves about now: those whose lease has
-- expired with no tries left (R13), those whose absolute deadline has passed (R6), and spontaneous
-- ones whose time has come (R14). Nothing is locked; end_due_tasks looks again.
--
--   $1 tasks  integer
--   $2 after  bigint
SELECT due.key
FROM (
    SELECT task.key
    FROM stint.leases AS lease
    CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.tries
        FROM stint.leased
        WHERE leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
          AND leased.claim = lease.claim
          AND leased.part = lease.part
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT tasks.key
        FROM stint.tasks
        WHERE tasks.key BETWEEN leased.lo AND leased.hi
          AND tasks.max_tries > 0 AND leased.tries >= tasks.max_tries
        OFFSET 0
    ) AS task
    WHERE lease.deadline <= statement_timestamp()
    UNION
    SELECT deadlines.key
    FROM stint.deadlines
    WHERE deadlines.deadline <= statement_timestamp()
    UNION
    SELECT scheduled.key
    FROM stint.scheduled
    WHERE scheduled.not_before <= statement_timestamp()
      AND (SELECT tasks.action FROM stint.tasks WHERE tasks.key = scheduled.key) = 'stint.Spontaneous'
    OFFSET 0 -- a fence: each branch goes along its own index, not along its keys
) AS due
WHERE due.key > $2::bigint
ORDER BY due.key
LIMIT $1::integer
