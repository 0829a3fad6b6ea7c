-- name: sample_tasks
--
-- Estimates how many tasks are in each state, by action, and how many of these are parked, from a
-- sample of $1 pages of each table. States are those of count_tasks.
--
--   $1 pages  integer, of 8 KiB
--
-- Only a count tells how many tasks a large table holds. Some pages tell how full all of them are,
-- in the same time however many there are.
WITH part AS MATERIALIZED (
    -- The sizes are asked once: to ask takes as long as to read a row.
    SELECT least(1, pages.size / greatest(1, pg_relation_size('stint.blocked'))) AS blocked,
           least(1, pages.size / greatest(1, pg_relation_size('stint.scheduled'))) AS scheduled,
           least(1, pages.size / greatest(1, pg_relation_size('stint.ready'))) AS ready,
           least(1, pages.size / greatest(1, pg_relation_size('stint.leased'))) AS leased,
           least(1, pages.size / greatest(1, pg_relation_size('stint.finished'))) AS finished
    FROM (SELECT 8192.0 * $1::integer) AS pages (size)
), sampled AS (
    SELECT 0 /* blocked */ AS state, blocked.key AS lo, blocked.key AS hi, NULL::text AS action,
           false AS parked, (SELECT part.blocked FROM part) AS part
    FROM stint.blocked TABLESAMPLE SYSTEM (100 * (SELECT part.blocked FROM part))
    UNION ALL
    SELECT 1 /* scheduled */, scheduled.key, scheduled.key, NULL,
           false, (SELECT part.scheduled FROM part)
    FROM stint.scheduled TABLESAMPLE SYSTEM (100 * (SELECT part.scheduled FROM part))
    UNION ALL
    SELECT 2 /* ready */, ready.lo, ready.hi, ready.action,
           ready.position < 0, (SELECT part.ready FROM part)
    FROM stint.ready TABLESAMPLE SYSTEM (100 * (SELECT part.ready FROM part))
    UNION ALL
    SELECT 3 /* in progress */, leased.lo, leased.hi, NULL,
           false, (SELECT part.leased FROM part)
    FROM stint.leased TABLESAMPLE SYSTEM (100 * (SELECT part.leased FROM part))
    UNION ALL
    SELECT CASE finished.cause
               WHEN 0 /* completed */ THEN 10 /* completed */
               ELSE 11 /* aborted */
           END,
           finished.lo, finished.hi, NULL,
           false, (SELECT part.finished FROM part)
    FROM stint.finished TABLESAMPLE SYSTEM (100 * (SELECT part.finished FROM part))
)
SELECT sampled.state, task.action,
       sum((sampled.hi - sampled.lo + 1) / sampled.part)::bigint AS tasks,
       coalesce(sum((sampled.hi - sampled.lo + 1) / sampled.part) FILTER (WHERE sampled.parked), 0)
           ::bigint AS parked
FROM sampled
CROSS JOIN LATERAL (
    -- Rows of ready hold their action, for the others it is looked up. A replaced task has none any
    -- more, and is left out, as in the answer of count_tasks.
    SELECT coalesce(
        sampled.action,
        (SELECT tasks.action FROM stint.tasks WHERE tasks.key = sampled.lo)) AS action
    OFFSET 0
) AS task
WHERE task.action IS NOT NULL
GROUP BY sampled.state, task.action
