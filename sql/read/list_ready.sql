-- name: list_ready
--
-- Returns the first $2 ready tasks behind $1, by key, in the form of list_ids.
--
--   $1 key    bigint
--   $2 tasks  integer
SELECT task.key, NULL::timestamptz AS at, NULL::bigint AS rank, NULL::text AS id
FROM (
    SELECT head.lo, head.hi, sum(head.hi - head.lo + 1) OVER up_to_here AS tasks
    FROM (
        -- The span that $1 is in may hold some of the tasks: it begins in the same block of 1,024
        -- keys. hi + 0: not along ready_order.
        SELECT greatest(ready.lo, $1::bigint + 1) AS lo, ready.hi
        FROM stint.ready
        WHERE ready.lo >= $1::bigint >> 10 << 10 AND ready.hi + 0 > $1::bigint
        ORDER BY ready.lo
        LIMIT $2::integer
    ) AS head
    WINDOW up_to_here AS (ORDER BY head.lo ROWS UNBOUNDED PRECEDING)
) AS span
CROSS JOIN LATERAL generate_series(span.lo, span.hi) AS task (key)
WHERE span.tasks - (span.hi - span.lo + 1) < $2::integer -- the other spans are behind the last task
ORDER BY task.key
LIMIT $2::integer
