-- name: list_limits
--
-- Returns the limits of actions, since when they are paused, how many of their tasks count as in
-- progress and how many are parked, and how the bucket of the rate is filled.
--
--   $1 actions  text[]: of these only; null: of all
--   $2 rows     integer: how many parked rows are counted
SELECT limits.action, limits.concurrency, limits.per_key, limits.rate_tasks, limits.rate_per,
       limits.rate_burst, limits.key_tasks, limits.key_per, limits.key_burst, limits.fair,
       limits.ordered, limits.fair_group, limits.by_cost,
       -- A row that is there for a pause only has no limits that were set.
       CASE WHEN limits.fair OR num_nonnulls(limits.concurrency, limits.per_key,
                                             limits.rate_tasks, limits.key_tasks) > 0
            THEN limits.set_at
       END AS set_at,
       limits.paused_at,
       -- Without such limits not all of them are marked.
       CASE WHEN num_nonnulls(limits.concurrency, limits.per_key) = 0
            THEN 0
            ELSE (SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)::bigint
                  FROM stint.leased
                  WHERE leased.limited_action = limits.action)
       END AS in_progress,
       parked.tasks AS parked, bucket.tokens,
       CASE WHEN bucket.tokens < 1
            -- What costs owe may come later than any time that there is: 1,000 years will do.
            THEN statement_timestamp() + least((1 - bucket.tokens) / limits.rate_tasks
                     * date_part('epoch', limits.rate_per), 31622400000) * interval '1 s'
       END AS next_at
FROM stint.limits
CROSS JOIN LATERAL (
    SELECT coalesce(sum(span.hi - span.lo + 1), 0)::bigint AS tasks
    FROM (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = limits.action AND ready.position < 0
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT $2::integer
    ) AS span
) AS parked
CROSS JOIN LATERAL (
    SELECT least(limits.rate_burst,
                 limits.tokens + limits.rate_tasks
                     * date_part('epoch', greatest(
                         statement_timestamp() - limits.refilled_at, interval '0'))
                     / date_part('epoch', limits.rate_per)) AS tokens
) AS bucket
WHERE $1::text[] IS NULL OR limits.action = ANY ($1::text[])
ORDER BY limits.action
