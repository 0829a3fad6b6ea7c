-- name: limited_actions
--
-- Returns the first $1 actions that have limits or are paused: whether they have limits, how many
-- tasks these let be in progress at once (null: any number), and whether they are paused.
--
--   $1 actions  integer
SELECT limited.action, limited.limited, limited.concurrency, limited.paused
FROM (
    SELECT limits.action, limits.concurrency, limits.paused_at IS NOT NULL AS paused,
           limits.fair OR num_nonnulls(limits.concurrency, limits.per_key, limits.rate_tasks,
                                       limits.key_tasks) > 0 AS limited
    FROM stint.limits
) AS limited
WHERE limited.limited OR limited.paused
ORDER BY limited.action
LIMIT $1::integer
