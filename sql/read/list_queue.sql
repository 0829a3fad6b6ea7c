-- name: list_queue
--
-- Returns the first $4 ready tasks with action $1 behind the place $2, $3, in the order in which
-- they are fetched, in the form of list_ids.
--
--   $1 action  text
--   $2 rank    bigint
--   $3 key     bigint
--   $4 tasks   integer
SELECT task.key, NULL::timestamptz AS at, span.rank, NULL::text AS id
FROM (
    SELECT head.rank, head.lo, head.hi, sum(head.hi - head.lo + 1) OVER up_to_here AS tasks
    FROM (
        -- The span that the place is in has only the keys above it left.
        SELECT ready.rank, ready.hi,
               CASE WHEN ready.rank = $2::bigint THEN greatest(ready.lo, $3::bigint + 1)
                    ELSE ready.lo
               END AS lo
        FROM stint.ready
        WHERE ready.action = $1::text
          AND (ready.rank, ready.hi) OPERATOR(pg_catalog.>) ($2::bigint, $3::bigint)
        ORDER BY ready.rank, ready.hi
        LIMIT $4::integer
    ) AS head
    WINDOW up_to_here AS (ORDER BY head.rank, head.hi ROWS UNBOUNDED PRECEDING)
) AS span
CROSS JOIN LATERAL generate_series(span.lo, span.hi) AS task (key)
WHERE span.tasks - (span.hi - span.lo + 1) < $4::integer -- the other spans are behind the last task
ORDER BY span.rank, task.key
LIMIT $4::integer
