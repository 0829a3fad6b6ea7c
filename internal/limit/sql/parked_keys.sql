-- name: parked_keys
--
-- Returns up to $3 keys of which tasks are parked, behind the place $1, $2, in order, and whether
-- they are free: no limit, pause or turn holds up their tasks. A fetch that has begun before
-- limits were removed may park such tasks when all others have been brought back.
--
--   $1 action     text
--   $2 limit_key  text
--   $3 keys       integer
WITH RECURSIVE parked AS (
    (
        SELECT ready.action, ready.limit_key, 1 AS n
        FROM stint.ready
        WHERE ready.position < 0
          AND (ready.action, ready.limit_key) OPERATOR(pg_catalog.>) ($1::text, $2::text)
        ORDER BY ready.action, ready.limit_key
        LIMIT 1
    )
    UNION ALL
    SELECT next.action, next.limit_key, parked.n + 1
    FROM parked
    CROSS JOIN LATERAL (
        SELECT ready.action, ready.limit_key
        FROM stint.ready
        WHERE ready.position < 0
          AND (ready.action, ready.limit_key)
              OPERATOR(pg_catalog.>) (parked.action, parked.limit_key)
        ORDER BY ready.action, ready.limit_key
        LIMIT 1
    ) AS next
    WHERE parked.n < $3::integer
)
SELECT parked.action, parked.limit_key,
       limits.fair IS NOT TRUE
           AND (parked.limit_key = '' OR num_nonnulls(limits.per_key, limits.key_tasks) = 0)
           AND (SELECT limited_keys.paused_at
                FROM stint.limited_keys
                WHERE limited_keys.action = parked.action
                  AND limited_keys.limit_key = parked.limit_key) IS NULL AS free
FROM parked
LEFT JOIN LATERAL (
    SELECT limits.fair, limits.per_key, limits.key_tasks
    FROM stint.limits
    WHERE limits.action = parked.action
    OFFSET 0
) AS limits ON true
