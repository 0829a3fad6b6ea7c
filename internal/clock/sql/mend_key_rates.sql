-- name: mend_key_rates
--
-- Makes up to $1 buckets of keys that were changed in the future, of actions that count costs, have
-- been changed now: what they owe then comes as much earlier. Returns how many, and by how much the
-- clock was ahead. Buckets of other actions are put right by whoever fetches: they owe nothing, so
-- they are full by a time that a rule bounds.
--
--   $1 rows  integer
WITH ahead AS MATERIALIZED (
    SELECT bucket.tid, bucket.ahead
    FROM (
        SELECT limits.action, date_part('epoch', limits.key_per) / limits.key_tasks AS each
        FROM stint.limits
        WHERE limits.by_cost AND limits.key_tasks IS NOT NULL
        OFFSET 0
    ) AS limits
    CROSS JOIN LATERAL (
        SELECT key_rates.ctid AS tid,
               (
                   -- include bucket_ahead: bucket=key_rates; each=limits.each
               ) AS ahead
        FROM stint.key_rates
        WHERE key_rates.action = limits.action
          AND (
              -- include bucket_ahead: bucket=key_rates; each=limits.each
          ) > interval '1 s'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS bucket
    LIMIT $1::integer
), mended AS (
    UPDATE stint.key_rates
    SET full_at = key_rates.full_at - ahead.ahead, wake_at = key_rates.wake_at - ahead.ahead,
        seen_at = statement_timestamp()
    FROM ahead
    WHERE key_rates.ctid = ahead.tid
)
SELECT count(*) AS rows, max(ahead.ahead) AS ahead
FROM ahead
