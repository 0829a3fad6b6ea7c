-- name: sample_tasks
--
-- About how many tasks are in each state, by action, from a sample of $1 pages of each table. States
-- are those of count_tasks.
--
--   $1 pages  integer, of 8 KiB
--
-- What a table holds that has grown large is known to nobody but who counts it. Some pages tell how
-- full all of them are, in the same time however many there are. Rows of ready hold their action; for
-- the others it is looked up.
WITH sampled AS (
    SELECT 0 AS state, blocked.key AS lo, blocked.key AS hi, NULL::text AS action,
           greatest(1, pg_relation_size('stint.blocked') / (8192.0 * $1::integer)) AS factor
    FROM stint.blocked TABLESAMPLE SYSTEM
        (least(100, 819200.0 * $1::integer / greatest(1, pg_relation_size('stint.blocked'))))
    UNION ALL
    SELECT 1, scheduled.key, scheduled.key, NULL,
           greatest(1, pg_relation_size('stint.scheduled') / (8192.0 * $1::integer))
    FROM stint.scheduled TABLESAMPLE SYSTEM
        (least(100, 819200.0 * $1::integer / greatest(1, pg_relation_size('stint.scheduled'))))
    UNION ALL
    SELECT 2, ready.lo, ready.hi, ready.action,
           greatest(1, pg_relation_size('stint.ready') / (8192.0 * $1::integer))
    FROM stint.ready TABLESAMPLE SYSTEM
        (least(100, 819200.0 * $1::integer / greatest(1, pg_relation_size('stint.ready'))))
    UNION ALL
    SELECT 3, leased.lo, leased.hi, NULL,
           greatest(1, pg_relation_size('stint.leased') / (8192.0 * $1::integer))
    FROM stint.leased TABLESAMPLE SYSTEM
        (least(100, 819200.0 * $1::integer / greatest(1, pg_relation_size('stint.leased'))))
    UNION ALL
    SELECT CASE finished.cause WHEN 0 THEN 10 ELSE 11 END, finished.lo, finished.hi, NULL,
           greatest(1, pg_relation_size('stint.finished') / (8192.0 * $1::integer))
    FROM stint.finished TABLESAMPLE SYSTEM
        (least(100, 819200.0 * $1::integer / greatest(1, pg_relation_size('stint.finished'))))
)
SELECT sampled.state, task.action,
       sum((sampled.hi - sampled.lo + 1) * sampled.factor)::bigint AS tasks
FROM sampled
CROSS JOIN LATERAL (
    SELECT coalesce(
        sampled.action,
        (SELECT tasks.action FROM stint.tasks WHERE tasks.key = sampled.lo)) AS action
    OFFSET 0
) AS task
GROUP BY sampled.state, task.action
