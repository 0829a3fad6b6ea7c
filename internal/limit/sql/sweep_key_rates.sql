-- name: sweep_key_rates
--
-- Looks at $3 buckets of keys behind the place $1, $2, and drops those that are full and wake
-- nobody, and those of actions whose keys have no rate any more. Returns how many it dropped, and
-- the place of the last, null if there are no more.
--
--   $1 action     text
--   $2 limit_key  text
--   $3 buckets    integer
--
-- Where costs count, it also puts right what a clock that was ahead has written. Other buckets owe
-- nothing: whoever fetches sees that they are full too late.
WITH seen AS MATERIALIZED (
    SELECT key_rates.action, key_rates.limit_key, key_rates.full_at,
           coalesce(key_rates.seen_at, key_rates.full_at) AS seen_at
    FROM stint.key_rates
    WHERE (key_rates.action, key_rates.limit_key) OPERATOR(pg_catalog.>) ($1::text, $2::text)
    ORDER BY key_rates.action, key_rates.limit_key
    LIMIT $3::integer
), full_one AS MATERIALIZED (
    SELECT bucket.tid
    FROM seen
    CROSS JOIN LATERAL (
        SELECT key_rates.ctid AS tid
        FROM stint.key_rates
        WHERE key_rates.action = seen.action AND key_rates.limit_key = seen.limit_key
          AND (key_rates.full_at <= statement_timestamp() AND key_rates.wake_at IS NULL
               OR key_rates.full_at = seen.full_at
                  AND (SELECT limits.key_tasks
                       FROM stint.limits
                       WHERE limits.action = seen.action) IS NULL)
        FOR UPDATE SKIP LOCKED
    ) AS bucket
), dropped AS (
    DELETE FROM stint.key_rates
    USING full_one
    WHERE key_rates.ctid = full_one.tid
), ahead AS MATERIALIZED (
    SELECT bucket.tid, bucket.ahead
    FROM seen
    CROSS JOIN LATERAL (
        SELECT key_rates.ctid AS tid,
               -- include bucket_ahead: bucket=key_rates
               AS ahead
        FROM stint.key_rates
        WHERE key_rates.action = seen.action AND key_rates.limit_key = seen.limit_key
          AND (SELECT limits.by_cost AND limits.key_tasks IS NOT NULL
               FROM stint.limits
               WHERE limits.action = seen.action)
        FOR UPDATE SKIP LOCKED
    ) AS bucket
    WHERE seen.seen_at > statement_timestamp() + interval '1 s'
), mended AS (
    UPDATE stint.key_rates
    SET full_at = key_rates.full_at - ahead.ahead, wake_at = key_rates.wake_at - ahead.ahead,
        seen_at = statement_timestamp()
    FROM ahead
    WHERE key_rates.ctid = ahead.tid AND ahead.ahead > interval '0'
)
SELECT (SELECT count(*) FROM full_one) AS dropped, last.action, last.limit_key
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT seen.action, seen.limit_key
    FROM seen
    ORDER BY seen.action, seen.limit_key
    OFFSET $3::integer - 1
) AS last ON true
