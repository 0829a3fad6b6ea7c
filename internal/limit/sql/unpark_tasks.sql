-- name: unpark_tasks
--
-- Puts parked tasks of an action back to where they were in the queue, up to $6 rows behind the
-- place $3, $4, $5, and returns how many, and the place of the last. Rows that somebody is changing
-- are passed over, and so are those that a fetch parks again meanwhile: the next call begins
-- behind them.
--
--   $1 action     text
--   $2 keys       text[], sorted: of these only; null: of all
--   $3 limit_key  text
--   $4 rank       bigint
--   $5 hi         bigint
--   $6 rows       integer
WITH parked AS MATERIALIZED (
    SELECT span.lo, span.limit_key, span.rank, span.hi
    FROM (
        SELECT ready.lo, ready.limit_key, ready.rank, ready.hi
        FROM stint.ready
        WHERE $2::text[] IS NULL AND ready.action = $1::text AND ready.position < 0
          AND (ready.limit_key, ready.rank, ready.hi)
              OPERATOR(pg_catalog.>) ($3::text, $4::bigint, $5::bigint)
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT $6::integer
        FOR UPDATE SKIP LOCKED
    ) AS span
    UNION ALL
    (
        SELECT span.lo, span.limit_key, span.rank, span.hi
        FROM unnest($2::text[]) AS named (key)
        CROSS JOIN LATERAL (
            SELECT ready.lo, ready.limit_key, ready.rank, ready.hi
            FROM stint.ready
            WHERE ready.action = $1::text AND ready.limit_key = named.key AND ready.position < 0
              AND (ready.limit_key, ready.rank, ready.hi)
                  OPERATOR(pg_catalog.>) ($3::text, $4::bigint, $5::bigint)
            ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
            LIMIT $6::integer
            FOR UPDATE SKIP LOCKED
        ) AS span
        LIMIT $6::integer -- the keys come in their order
    )
), unparked AS (
    UPDATE stint.ready
    SET position = ready.position & 9223372036854775807 /* all but the sign */
    WHERE ready.lo = ANY (ARRAY(SELECT parked.lo FROM parked))
)
SELECT (SELECT count(*) FROM parked) AS rows, last.limit_key, last.rank, last.hi
FROM (
    SELECT parked.limit_key, parked.rank, parked.hi
    FROM parked
    ORDER BY parked.limit_key DESC, parked.rank DESC, parked.hi DESC
    LIMIT 1
) AS last
