-- name: find_room
--
-- Returns where in the queue of an action the first task is whose key may have room below its
-- limits, among about the first $4 tasks behind the place $2, $3 (null if none is), and
-- the place of
-- the last of these, null if there are no more. It locks nothing. Tasks of fair actions have no
-- room but by their turns.
--
--   $1 action  text
--   $2 rank    bigint
--   $3 hi      bigint
--   $4 tasks   integer
WITH page AS MATERIALIZED (
    SELECT summed.rank, summed.lo, summed.hi, summed.limit_key
    FROM (
        SELECT head.rank, head.lo, head.hi, head.limit_key,
               sum(head.hi - head.lo + 1) OVER (ORDER BY head.rank, head.hi)
                   - (head.hi - head.lo + 1) AS before
        FROM (
            SELECT ready.rank, ready.lo, ready.hi, ready.limit_key
            FROM stint.ready
            WHERE ready.action = $1::text AND ready.rank >= 0
              AND (ready.rank, ready.hi) OPERATOR(pg_catalog.>) ($2::bigint, $3::bigint)
              AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
            ORDER BY ready.action, ready.rank, ready.hi
            LIMIT $4::integer
        ) AS head
    ) AS summed
    WHERE summed.before < $4::integer
), key AS MATERIALIZED (
    SELECT named.limit_key, min(named.rank) AS rank, array_agg(named.key) AS keys
    FROM (
        SELECT page.rank, task.key, coalesce(task.limit_key, '') AS limit_key
        FROM page
        CROSS JOIN LATERAL (
            SELECT tasks.key, tasks.limit_key
            FROM stint.tasks
            WHERE tasks.key BETWEEN page.lo AND page.hi
            OFFSET 0
        ) AS task
    ) AS named
    GROUP BY named.limit_key
), room AS MATERIALIZED (
    SELECT key.rank
    FROM (
        SELECT limits.per_key, limits.ordered, limits.key_burst,
               date_part('epoch', limits.key_per) / limits.key_tasks AS each
        FROM stint.limits
        WHERE limits.action = $1::text AND NOT limits.fair
        OFFSET 0
    ) AS limits
    CROSS JOIN key
    WHERE key.limit_key = ''
       OR (SELECT limited_keys.paused_at
           FROM stint.limited_keys
           WHERE limited_keys.action = $1::text AND limited_keys.limit_key = key.limit_key) IS NULL
          AND (limits.per_key IS NULL OR limits.ordered OR limits.per_key > (
              -- include slots_held: action=$1::text; key=key.limit_key; per_key=limits.per_key
          ))
          -- Where a task holds its key, it is the only one that may be taken.
          AND (NOT limits.ordered OR (
              SELECT bool_or(holders.key = ANY (key.keys))
              FROM stint.holders
              WHERE holders.action = $1::text AND holders.limit_key = key.limit_key) IS NOT FALSE)
          AND (limits.each IS NULL OR (
              SELECT limits.key_burst - date_part(
                         'epoch', key_rates.full_at - statement_timestamp()) / limits.each
              FROM stint.key_rates
              WHERE key_rates.action = $1::text
                AND key_rates.limit_key = key.limit_key) < 0.999999 IS NOT TRUE)
          -- What is parked comes first.
          AND (limits.each IS NULL AND NOT limits.ordered OR (
              SELECT true
              FROM stint.ready
              WHERE ready.action = $1::text AND ready.limit_key = key.limit_key
                AND ready.position < 0
              LIMIT 1) IS NULL)
)
SELECT (SELECT min(room.rank) FROM room) AS found, last.rank, last.hi
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT page.rank, page.hi FROM page ORDER BY page.rank DESC, page.hi DESC LIMIT 1
) AS last ON true
