-- name: sample_tasks
--
-- Estimates how many tasks are in some states, by action, and how many of these are parked, from a
-- sample of $1 pages of each table, or all where there are no more, and says what time it is. Of
-- finished, after whose size nobody starts workers, it is half as many.
-- States are those of count_tasks.
--
--   $1 pages   integer, of 8 KiB
--   $2 states  smallint[]; 10 stands for all of the table finished
--   $3 rows    integer: of how many rows to look up the action, about
--   $4 looked  integer: from how many pages of each table, at most
--
-- Only a count tells how many tasks a large table holds. Some pages tell how full all of them are,
-- in the same time however many there are. They are the same pages each time, so that numbers stay
-- as they are while nothing changes.
WITH part AS MATERIALIZED (
    -- The sizes are asked once: to ask takes as long as to read a row. Of a table that is not
    -- wanted no page is read.
    SELECT size.state, size.is_wanted * least(
               1, 8192.0 * $1::integer / CASE size.state WHEN 10 THEN 2 ELSE 1 END / size.bytes
           ) AS pages,
           size.is_wanted * least(1, 8192.0 * $4::integer / size.bytes) AS looked
    FROM (
        SELECT known.state, greatest(1, CASE
                   WHEN known.state <> ALL ($2::smallint[]) THEN 1
                   WHEN known.state = 0 THEN pg_relation_size('stint.blocked')
                   WHEN known.state = 1 THEN pg_relation_size('stint.scheduled')
                   WHEN known.state = 2 THEN pg_relation_size('stint.ready')
                   WHEN known.state = 3 THEN pg_relation_size('stint.leased')
                   ELSE pg_relation_size('stint.finished')
               END) AS bytes, (known.state = ANY ($2::smallint[]))::integer AS is_wanted
        FROM (VALUES (0), (1), (2), (3), (10)) AS known (state)
    ) AS size
), total AS MATERIALIZED (
    SELECT 0 /* blocked */ AS state, NULL::text AS action, false AS parked,
           count(*)::bigint AS tasks, 0 AS of
    FROM stint.blocked
         TABLESAMPLE SYSTEM (100 * (SELECT part.pages FROM part WHERE part.state = 0))
         REPEATABLE (0)
    UNION ALL
    SELECT 1 /* scheduled */, NULL, false, count(*), 1
    FROM stint.scheduled
         TABLESAMPLE SYSTEM (100 * (SELECT part.pages FROM part WHERE part.state = 1))
         REPEATABLE (0)
    UNION ALL
    -- Rows of ready hold their action.
    SELECT 2 /* ready */, ready.action, ready.position < 0, sum(ready.hi - ready.lo + 1), 2
    FROM stint.ready
         TABLESAMPLE SYSTEM (100 * (SELECT part.pages FROM part WHERE part.state = 2))
         REPEATABLE (0)
    GROUP BY ready.action, ready.position < 0
    UNION ALL
    SELECT 3 /* in progress */, NULL, false, sum(leased.hi - leased.lo + 1), 3
    FROM stint.leased
         TABLESAMPLE SYSTEM (100 * (SELECT part.pages FROM part WHERE part.state = 3))
         REPEATABLE (0)
    UNION ALL
    SELECT CASE finished.cause
               WHEN 0 /* completed */ THEN 10 /* completed */
               WHEN 8 /* skipped */ THEN 18 /* skipped */
               ELSE 11 /* aborted */
           END AS state, NULL, false, sum(finished.hi - finished.lo + 1), 10
    FROM stint.finished
         TABLESAMPLE SYSTEM (100 * (SELECT part.pages FROM part WHERE part.state = 10))
         REPEATABLE (0)
    GROUP BY 1
), sampled AS MATERIALIZED (
    SELECT 0 /* blocked */ AS state, blocked.key AS lo, blocked.key AS hi
    FROM stint.blocked
         TABLESAMPLE SYSTEM (100 * (SELECT part.looked FROM part WHERE part.state = 0))
         REPEATABLE (0)
    UNION ALL
    SELECT 1 /* scheduled */, scheduled.key, scheduled.key
    FROM stint.scheduled
         TABLESAMPLE SYSTEM (100 * (SELECT part.looked FROM part WHERE part.state = 1))
         REPEATABLE (0)
    UNION ALL
    SELECT 3 /* in progress */, leased.lo, leased.hi
    FROM stint.leased
         TABLESAMPLE SYSTEM (100 * (SELECT part.looked FROM part WHERE part.state = 3))
         REPEATABLE (0)
    UNION ALL
    SELECT CASE finished.cause
               WHEN 0 /* completed */ THEN 10 /* completed */
               WHEN 8 /* skipped */ THEN 18 /* skipped */
               ELSE 11 /* aborted */
           END,
           finished.lo, finished.hi
    FROM stint.finished
         TABLESAMPLE SYSTEM (100 * (SELECT part.looked FROM part WHERE part.state = 10))
         REPEATABLE (0)
), share AS MATERIALIZED (
    -- As many rows as are to be looked up stand for all of their state.
    SELECT looked.state, looked.action,
           sum(looked.tasks) / sum(sum(looked.tasks)) OVER (PARTITION BY looked.state) AS part
    FROM (
        SELECT chosen.state, chosen.hi - chosen.lo + 1 AS tasks,
               -- A replaced task has no action any more, and is left out, as in the answer of
               -- count_tasks.
               (SELECT tasks.action FROM stint.tasks WHERE tasks.key = chosen.lo) AS action
        FROM (
            SELECT sampled.state, sampled.lo, sampled.hi,
                   row_number() OVER (PARTITION BY sampled.state ORDER BY sampled.lo) AS n,
                   greatest(1, (SELECT count(*) FROM sampled) / $3::integer) AS every
            FROM sampled
        ) AS chosen
        -- By a hash, since tasks may have been inserted in a pattern; and one of each state.
        WHERE chosen.n = 1 OR hashint8(chosen.lo) & 2147483647 < 2147483647 / chosen.every
        OFFSET 0
    ) AS looked
    GROUP BY looked.state, looked.action
)
SELECT total.state::smallint, coalesce(total.action, share.action) AS action,
       sum(total.tasks * coalesce(share.part, 1) / part.pages)::bigint AS tasks,
       coalesce(sum(total.tasks / part.pages) FILTER (WHERE total.parked), 0)::bigint AS parked,
       statement_timestamp() AS at
FROM total
JOIN part ON part.state = total.of AND part.pages > 0
LEFT JOIN share ON share.state = total.state AND total.action IS NULL
WHERE coalesce(total.action, share.action) IS NOT NULL
GROUP BY total.state, coalesce(total.action, share.action)
