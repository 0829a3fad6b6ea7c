-- name: settle_spent
--
-- Settles what performances of an action have spent more or less than the costs of their tasks, of
-- 1,000 at most: takes it from the buckets of the action and of the keys, or puts it back, and adds
-- it to the turns of the keys. It is a transaction of its own, ahead of a fetch, since own_limited
-- locks buckets, too, and whoever locks some twice may deadlock. A key that waits for tokens and
-- gets some back is looked at again at once. Turns that others are changing are not changed.
--
--   $1 action  text
--
-- It locks rows of spent in their order, then the action, turns, and buckets of keys in their
-- order, as whoever fetches or returns.
WITH due AS MATERIALIZED (
    SELECT spent.ctid AS tid, spent.limit_key, 32767 - spent.priority AS tier, spent.more
    FROM stint.spent
    WHERE spent.action = $1::text
    ORDER BY spent.action, spent.key, spent.claim
    LIMIT 1000
    FOR UPDATE
), gone AS (
    DELETE FROM stint.spent
    USING due
    WHERE spent.ctid = due.tid
), locked AS MATERIALIZED (
    -- Ahead of turns: a statement within WITH that nobody reads comes last.
    SELECT limits.action
    FROM stint.limits
    WHERE limits.action = $1::text AND (SELECT count(*) FROM due) > 0
    FOR UPDATE
), paid AS (
    UPDATE stint.limits
    -- As in set_limits: what has come in until now comes first, so that what is owed is not paid
    -- by what a full bucket could not hold.
    SET tokens = least(limits.rate_burst, limits.tokens + limits.rate_tasks
                     * date_part('epoch', greatest(
                         statement_timestamp() - limits.refilled_at, interval '0'))
                     / date_part('epoch', limits.rate_per)) - due_all.more,
        refilled_at = greatest(statement_timestamp(),
                               least(limits.refilled_at, clock_timestamp()))
    FROM (SELECT sum(due.more)::bigint AS more FROM due) AS due_all
    WHERE limits.action = $1::text AND limits.by_cost AND limits.rate_tasks IS NOT NULL
      AND due_all.more IS NOT NULL
    RETURNING limits.action
), key AS MATERIALIZED (
    SELECT due.limit_key, least(greatest(sum(due.more) * date_part('epoch', limits.key_per)
                                             / limits.key_tasks, -31622400000), 31622400000)
               * interval '1 s' AS takes
    FROM due
    CROSS JOIN LATERAL (
        SELECT limits.key_per, limits.key_tasks
        FROM stint.limits
        WHERE limits.action = $1::text AND limits.by_cost AND limits.key_tasks IS NOT NULL
        OFFSET 0
    ) AS limits
    WHERE due.limit_key <> ''
    GROUP BY due.limit_key, limits.key_per, limits.key_tasks
), paid_key AS (
    INSERT INTO stint.key_rates AS key_rates (action, limit_key, full_at, seen_at)
    SELECT $1::text, key.limit_key, statement_timestamp() + key.takes, statement_timestamp()
    FROM key
    ORDER BY key.limit_key
    ON CONFLICT (action, limit_key) DO UPDATE
    -- What was full before is full now. No bucket owes more than comes in 1,000 years, and as much
    -- again, however often it is settled: there are no times for more. What a clock that was ahead
    -- has written is put right first.
    SET full_at = least(greatest(key_rates.full_at - greatest((
                            -- include bucket_ahead: bucket=key_rates
                        ), interval '0'), statement_timestamp()),
                        statement_timestamp() + 31622400000 * interval '1 s')
                  + (excluded.full_at - statement_timestamp()),
        seen_at = CASE WHEN key_rates.full_at > statement_timestamp()
                       THEN least(coalesce(key_rates.seen_at, key_rates.full_at),
                                  statement_timestamp())
                       ELSE statement_timestamp()
                  END,
        wake_at = CASE WHEN excluded.full_at > statement_timestamp() THEN key_rates.wake_at
                       ELSE least(key_rates.wake_at, statement_timestamp())
                  END
), turn AS MATERIALIZED (
    SELECT turns.tid, key.more / weighed.weight AS more
    FROM (
        SELECT due.limit_key, due.tier, sum(due.more) * 1000000 AS more
        FROM due
        WHERE (SELECT count(*) FROM locked) > 0
        GROUP BY due.limit_key, due.tier
    ) AS key
    CROSS JOIN LATERAL (
        SELECT limits.action
        FROM stint.limits
        WHERE limits.action = $1::text AND limits.by_cost AND limits.fair
        UNION
        SELECT member.action
        FROM (
            SELECT limits.fair_group
            FROM stint.limits
            WHERE limits.action = $1::text AND limits.by_cost AND length(limits.fair_group) > 0
            OFFSET 0
        ) AS shared
        CROSS JOIN LATERAL (
            SELECT limits.action
            FROM stint.limits
            WHERE limits.fair_group = shared.fair_group AND limits.fair_group <> ''
            OFFSET 0
        ) AS member
    ) AS member
    CROSS JOIN LATERAL (
        SELECT coalesce((
                   SELECT limited_keys.weight
                   FROM stint.limited_keys
                   WHERE limited_keys.action = $1::text
                     AND limited_keys.limit_key = key.limit_key), 1) AS weight
    ) AS weighed
    CROSS JOIN LATERAL (
        SELECT turns.ctid AS tid
        FROM stint.turns
        WHERE turns.action = member.action AND turns.tier = key.tier
          AND turns.limit_key BETWEEN key.limit_key AND key.limit_key
        ORDER BY turns.action, turns.limit_key, turns.tier
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS turns
)
UPDATE stint.turns
-- As in charge_costs, a pass has an end.
SET pass = least(turns.pass + turn.more, 9000000000000000000)::bigint
FROM turn
WHERE turns.ctid = turn.tid
