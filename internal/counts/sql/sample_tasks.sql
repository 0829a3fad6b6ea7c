-- name: sample_tasks
--
-- Estimates how many tasks are in some states, by action, and how many of these are parked, from a
-- sample of $1 pages of each table. States are those of count_tasks.
--
--   $1 pages   integer, of 8 KiB
--   $2 states  smallint[]; 10 stands for all of the table finished
--   $3 rows    integer: of how many rows to look up the action, about
--
-- Only a count tells how many tasks a large table holds. Some pages tell how full all of them are,
-- in the same time however many there are.
WITH part AS MATERIALIZED (
    -- The sizes are asked once: to ask takes as long as to read a row. Of a table that is not
    -- wanted no page is read.
    SELECT CASE WHEN 0 = ANY ($2::smallint[])
                THEN least(1, pages.size / greatest(1, pg_relation_size('stint.blocked')))
                ELSE 0 END AS blocked,
           CASE WHEN 1 = ANY ($2::smallint[])
                THEN least(1, pages.size / greatest(1, pg_relation_size('stint.scheduled')))
                ELSE 0 END AS scheduled,
           CASE WHEN 2 = ANY ($2::smallint[])
                THEN least(1, pages.size / greatest(1, pg_relation_size('stint.ready')))
                ELSE 0 END AS ready,
           CASE WHEN 3 = ANY ($2::smallint[])
                THEN least(1, pages.size / greatest(1, pg_relation_size('stint.leased')))
                ELSE 0 END AS leased,
           CASE WHEN 10 = ANY ($2::smallint[])
                THEN least(1, pages.size / greatest(1, pg_relation_size('stint.finished')))
                ELSE 0 END AS finished
    FROM (SELECT 8192.0 * $1::integer) AS pages (size)
), sampled AS MATERIALIZED (
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
               WHEN 8 /* skipped */ THEN 18 /* skipped */
               ELSE 11 /* aborted */
           END,
           finished.lo, finished.hi, NULL,
           false, (SELECT part.finished FROM part)
    FROM stint.finished TABLESAMPLE SYSTEM (100 * (SELECT part.finished FROM part))
), chosen AS MATERIALIZED (
    -- Rows of ready hold their action. Of the others, as many as are to be looked up stand for all.
    SELECT sampled.state, sampled.lo, sampled.hi, sampled.action, sampled.parked,
           sampled.part * share.looked AS part
    FROM sampled
    CROSS JOIN LATERAL (
        SELECT CASE WHEN sampled.action IS NULL
                    THEN least(1, $3::integer / greatest(
                             1, (SELECT count(*) FROM sampled WHERE sampled.action IS NULL)
                         )::double precision)
                    ELSE 1
               END AS looked
        OFFSET 0
    ) AS share
    WHERE share.looked = 1 OR random() < share.looked
)
SELECT chosen.state, task.action,
       sum((chosen.hi - chosen.lo + 1) / chosen.part)::bigint AS tasks,
       coalesce(sum((chosen.hi - chosen.lo + 1) / chosen.part) FILTER (WHERE chosen.parked), 0)
           ::bigint AS parked
FROM chosen
CROSS JOIN LATERAL (
    -- A replaced task has no action any more, and is left out, as in the answer of count_tasks.
    SELECT coalesce(
        chosen.action,
        (SELECT tasks.action FROM stint.tasks WHERE tasks.key = chosen.lo)) AS action
    OFFSET 0
) AS task
WHERE task.action IS NOT NULL
GROUP BY chosen.state, task.action
