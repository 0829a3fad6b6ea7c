-- name: check_limits
--
-- Returns the actions that have limits or are paused: since how long they and the first of their
-- keys are paused, how many keys are, how long ago somebody asked for them (null: not for a week),
-- and the key with the most parked tasks.
SELECT limits.action, statement_timestamp() - limits.paused_at AS paused,
       paused.keys AS paused_keys, statement_timestamp() - paused.since AS keys_paused,
       limits.fair OR num_nonnulls(limits.concurrency, limits.per_key, limits.rate_tasks,
                                   limits.key_tasks) > 0 AS limited,
       statement_timestamp() - limits.set_at AS set,
       statement_timestamp() - action_stats.asked_at AS asked, parked.limit_key AS parked_key,
       coalesce(parked.tasks, 0) AS parked
FROM stint.limits
LEFT JOIN stint.action_stats ON action_stats.action = limits.action
CROSS JOIN LATERAL (
    SELECT count(*) AS keys, min(limited_keys.paused_at) AS since
    FROM stint.limited_keys
    WHERE limited_keys.action = limits.action AND limited_keys.paused_at IS NOT NULL
) AS paused
LEFT JOIN (
    SELECT DISTINCT ON (key.action) key.action, key.limit_key, key.tasks
    FROM (
        SELECT ready.action, ready.limit_key, sum(ready.hi - ready.lo + 1)::bigint AS tasks
        FROM stint.ready
        WHERE ready.position < 0
        GROUP BY ready.action, ready.limit_key
    ) AS key
    ORDER BY key.action, key.tasks DESC, key.limit_key
) AS parked ON parked.action = limits.action
ORDER BY limits.action
LIMIT 1000
