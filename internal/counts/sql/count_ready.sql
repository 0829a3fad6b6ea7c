-- name: count_ready
--
-- Counts the ready tasks of up to $2 pairs of an action and a priority, and returns for how long
-- the first in line of each has been ready. more says that a pair has more than the $1 spans that
-- were to be counted, parked that its tasks are parked, which are pairs of their own.
--
--   $1 spans    integer
--   $2 pairs    integer
--   $3 without  text[]: actions whose tasks are not to be counted, since they are known to be many
WITH RECURSIVE pair AS (
    -- Steps along ready_order from the first row of one pair to the first of the next, so that it
    -- reads a few rows however many are ready. level is the part of the rank that stands for the
    -- priority.
    (
        SELECT 1 AS number, ready.action, ready.rank >> 47 AS level, ready.lo, ready.ready_at
        FROM stint.ready
        WHERE ready.action > ''
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT 1
    )
    UNION ALL
    SELECT pair.number + 1, next.action, next.rank >> 47, next.lo, next.ready_at
    FROM pair
    CROSS JOIN LATERAL (
        SELECT ready.action, ready.rank, ready.lo, ready.ready_at
        FROM stint.ready
        WHERE (ready.action, ready.rank)
              OPERATOR(pg_catalog.>) (pair.action, pair.level << 47 | (1::bigint << 47) - 1)
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT 1
    ) AS next
    WHERE pair.number < $2::integer
)
SELECT pair.action, coalesce(counted.tasks, 0), counted.spans > $1::integer AS more,
       statement_timestamp() - coalesce(pair.ready_at, first.inserted_at) AS age,
       pair.level < 0 AS parked
FROM pair
CROSS JOIN LATERAL (
    SELECT sum(head.hi - head.lo + 1)::bigint AS tasks, count(*) AS spans
    FROM (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = pair.action
          AND ready.rank BETWEEN pair.level << 47 AND pair.level << 47 | (1::bigint << 47) - 1
          AND pair.action <> ALL ($3::text[])
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT $1::integer + 1
    ) AS head
) AS counted
CROSS JOIN LATERAL (
    SELECT tasks.inserted_at
    FROM stint.tasks
    WHERE tasks.key = pair.lo
    OFFSET 0
) AS first
