-- name: charge_costs
--
-- Takes what the tasks of a claim cost from the buckets of actions that count costs, and adds it to
-- the turns of their keys. It runs behind own_gated or own_limited, in the same transaction, which
-- have counted one token for each task, and hold the locks of these buckets: they fetch one task at
-- a time of such an action. So a bucket owes at most what one task costs. Turns that somebody who
-- unparks tasks is changing are not charged: they lock turns ahead of buckets, and to wait for them
-- would be a deadlock. It does nothing if the claim was known before: then an attempt before has
-- charged.
--
--   $1 claim  bigint
WITH task AS MATERIALIZED (
    SELECT limits.tid, limits.action, task.limit_key, 32767 - task.priority AS tier, task.more,
           limits.rate_tasks, limits.fair, limits.fair_group, weighed.weight,
           -- No bucket owes more than comes in 1,000 years.
           least(task.more * date_part('epoch', limits.key_per) / limits.key_tasks, 31622400000)
               AS seconds
    FROM (
        SELECT leases.spans
        FROM stint.leases
        WHERE leases.claim = $1::bigint
          AND leases.xmin = pg_current_xact_id_if_assigned()::pg_catalog.xid
        OFFSET 0
    ) AS lease
    CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
    CROSS JOIN LATERAL (
        SELECT tasks.action, coalesce(tasks.limit_key, '') AS limit_key, tasks.priority,
               tasks.cost - 1 AS more
        FROM stint.tasks
        WHERE tasks.key BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
          AND tasks.cost IS NOT NULL
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT limits.ctid AS tid, limits.*
        FROM stint.limits
        WHERE limits.action = task.action AND limits.by_cost
        OFFSET 0
    ) AS limits
    CROSS JOIN LATERAL (
        SELECT coalesce((
                   SELECT limited_keys.weight
                   FROM stint.limited_keys
                   WHERE limited_keys.action = task.action
                     AND limited_keys.limit_key = task.limit_key), 1) AS weight
    ) AS weighed
), charged AS (
    UPDATE stint.limits
    SET tokens = limits.tokens - task.more
    FROM task
    WHERE limits.ctid = task.tid AND task.rate_tasks IS NOT NULL
), charged_key AS (
    UPDATE stint.key_rates
    SET full_at = key_rates.full_at + bucket.more
    FROM (
        SELECT rates.tid, ceil(task.seconds * 1000000) * interval '1 us' AS more
        FROM task
        CROSS JOIN LATERAL (
            SELECT key_rates.ctid AS tid
            FROM stint.key_rates
            WHERE key_rates.action = task.action AND key_rates.limit_key = task.limit_key
            OFFSET 0
        ) AS rates
        WHERE task.seconds IS NOT NULL AND task.limit_key <> ''
    ) AS bucket
    WHERE key_rates.ctid = bucket.tid
), member AS MATERIALIZED (
    -- A key has one account in all actions of a group.
    SELECT task.action, task.limit_key, task.tier, task.more, task.weight
    FROM task
    WHERE task.fair AND task.fair_group = ''
    UNION ALL
    SELECT limits.action, task.limit_key, task.tier, task.more, task.weight
    FROM task
    CROSS JOIN LATERAL (
        SELECT limits.action
        FROM stint.limits
        WHERE limits.fair_group = task.fair_group AND limits.fair_group <> ''
        OFFSET 0
    ) AS limits
    WHERE task.fair AND task.fair_group <> ''
)
UPDATE stint.turns
-- What is beyond 9,000 billion units of cost of a key that always has tasks counts no more, since a
-- pass beyond the greatest bigint would be an error at each fetch.
SET pass = least(turns.pass, 9000000000000000000 - turn.more) + turn.more
FROM (
    SELECT turns.tid, member.more::bigint * 1000000 / member.weight AS more
    FROM member
    CROSS JOIN LATERAL (
        -- Between and in order, for which turns_pkey is good and turns_order is not.
        SELECT turns.ctid AS tid
        FROM stint.turns
        WHERE turns.action = member.action AND turns.tier = member.tier
          AND turns.limit_key BETWEEN member.limit_key AND member.limit_key
        ORDER BY turns.action, turns.limit_key, turns.tier
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS turns
) AS turn
WHERE turns.ctid = turn.tid
