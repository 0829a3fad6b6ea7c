-- name: list_leased
--
-- Returns the first $2 owned tasks behind $1, by key, in the form of list_ids.
--
--   $1 key    bigint
--   $2 tasks  integer
SELECT task.key, NULL::timestamptz AS at, NULL::bigint AS rank, NULL::text AS id
FROM (
    SELECT head.lo, head.hi, sum(head.hi - head.lo + 1) OVER up_to_here AS tasks
    FROM (
        -- The span that $1 is in may hold some of the tasks: it begins in the same block of 1,024
        -- keys.
        SELECT greatest(leased.lo, $1::bigint + 1) AS lo, leased.hi
        FROM stint.leased
        WHERE leased.lo >= $1::bigint >> 10 << 10 AND leased.hi > $1::bigint
        ORDER BY leased.lo
        LIMIT $2::integer
    ) AS head
    WINDOW up_to_here AS (ORDER BY head.lo ROWS UNBOUNDED PRECEDING)
) AS span
CROSS JOIN LATERAL generate_series(span.lo, span.hi) AS task (key)
WHERE span.tasks - (span.hi - span.lo + 1) < $2::integer -- the other spans are behind the last task
ORDER BY task.key
LIMIT $2::integer
