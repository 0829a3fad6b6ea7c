-- name: explain_limits
--
-- Returns how limits and pauses hold up a ready task: the limits of its action, since when that and
-- the task's key are paused, how many tasks of each are in progress, when the next tokens come
-- (null if there are any), how many tasks of the key are parked, and how many tokens there are (0
-- without a rate); whether the task waits for the turn of its key, and how many turns come first;
-- whether it is parked. Returns nothing for other tasks, and where there are neither limits nor
-- pauses.
--
--   $1 id     text
--   $2 rows   integer: how many rows of leased are counted
--   $3 more   integer: how many parked rows, and how many turns
SELECT limits.concurrency, limits.per_key, limits.rate_tasks, limits.rate_per, limits.rate_burst,
       limits.key_tasks, limits.key_per, limits.key_burst, limits.fair, limits.ordered,
       limits.fair_group, limits.by_cost,
       limits.paused_at,
       paused.since AS key_paused_at, owned.tasks AS in_progress, held.slots AS key_in_progress,
       bucket.next_at, key_bucket.next_at AS key_next_at, parked.tasks AS key_waiting,
       coalesce(bucket.tokens, 0) AS tokens,
       coalesce(key_bucket.tokens, CASE WHEN task.limit_key <> '' THEN limits.key_burst END, 0)
           AS key_tokens,
       limits.fair AND task.position <> 0 AND turn.held IS NOT TRUE AS waits_for_turn,
       coalesce(ahead.turns, 0) AS turns_ahead, task.position < 0 AS parked
FROM (
    SELECT tasks.action, coalesce(tasks.limit_key, '') AS limit_key, span.position,
           32767 - span.priority AS tier
    FROM stint.tasks
    CROSS JOIN LATERAL (
        -- include span_of_key: table=ready; key=tasks.key;
        --   columns=ready.hi, ready.position, ready.priority
    ) AS span
    WHERE tasks.id = $1::text AND span.hi >= tasks.key
    OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT limits.* FROM stint.limits WHERE limits.action = task.action OFFSET 0
) AS limits
LEFT JOIN LATERAL (
    SELECT limited_keys.paused_at AS since
    FROM stint.limited_keys
    WHERE limited_keys.action = task.action AND limited_keys.limit_key = task.limit_key
    OFFSET 0
) AS paused ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(span.hi - span.lo + 1), 0)::bigint AS tasks
    FROM (
        SELECT leased.lo, leased.hi
        FROM stint.leased
        WHERE leased.limited_action = task.action AND limits.concurrency IS NOT NULL
        LIMIT $2::integer
    ) AS span
) AS owned
CROSS JOIN LATERAL (
    -- include slots_held: action=task.action; key=task.limit_key; per_key=limits.per_key
) AS held
CROSS JOIN LATERAL (
    SELECT rate.tokens,
           CASE WHEN rate.tokens < 1
                THEN statement_timestamp()
                     -- At most 1,000 years, as in list_limits.
                     + least((1 - rate.tokens) / limits.rate_tasks
                           * date_part('epoch', limits.rate_per), 31622400000) * interval '1 s'
           END AS next_at
    FROM (
        SELECT least(limits.rate_burst,
                     limits.tokens + limits.rate_tasks
                         * date_part('epoch', greatest(
                             statement_timestamp() - limits.refilled_at, interval '0'))
                         / date_part('epoch', limits.rate_per)) AS tokens
    ) AS rate
) AS bucket
LEFT JOIN LATERAL (
    -- There is a token from when all but one have come on.
    -- Unless costs count, a bucket is empty at worst: what is full later is of a clock that was
    -- ahead.
    SELECT CASE WHEN last.at > statement_timestamp() THEN last.at END AS next_at, last.tokens
    FROM (
        SELECT least(key_rates.full_at - (limits.key_burst - 1) * rate.each,
                     CASE WHEN NOT limits.by_cost THEN statement_timestamp() + rate.each END) AS at,
               greatest(limits.key_burst - greatest(0,
                            date_part('epoch', key_rates.full_at - statement_timestamp())
                            / date_part('epoch', limits.key_per) * limits.key_tasks),
                        CASE WHEN NOT limits.by_cost THEN 0 END) AS tokens
        FROM stint.key_rates
        CROSS JOIN LATERAL (SELECT limits.key_per / limits.key_tasks AS each) AS rate
        WHERE key_rates.action = task.action AND key_rates.limit_key = task.limit_key
          AND task.limit_key <> ''
        OFFSET 0
    ) AS last
) AS key_bucket ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(span.hi - span.lo + 1), 0)::bigint AS tasks
    FROM (
        SELECT ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = task.action AND ready.limit_key = task.limit_key
          AND ready.position < 0
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT $3::integer
    ) AS span
) AS parked
LEFT JOIN LATERAL (
    -- Between and in order, for which turns_pkey is good and turns_order is not.
    SELECT turns.tier, turns.pass, turns.limit_key, turns.held
    FROM stint.turns
    WHERE turns.action = task.action AND turns.tier = task.tier
      AND turns.limit_key BETWEEN task.limit_key AND task.limit_key
    ORDER BY turns.action, turns.limit_key, turns.tier
    LIMIT 1
) AS turn ON true
LEFT JOIN LATERAL (
    -- A key has one turn in all actions of a group.
    SELECT least(count(*), $3::integer) AS turns
    FROM (
        SELECT DISTINCT turns.tier, turns.limit_key
        FROM (
            SELECT task.action
            UNION
            SELECT member.action
            FROM stint.limits AS member
            WHERE member.fair_group = limits.fair_group AND member.fair_group <> ''
        ) AS member
        CROSS JOIN LATERAL (
            SELECT turns.tier, turns.limit_key
            FROM stint.turns
            WHERE turns.action = member.action AND NOT turns.held
              AND (turns.tier, turns.pass, turns.limit_key)
                  OPERATOR(pg_catalog.<) (turn.tier, turn.pass, turn.limit_key)
            ORDER BY turns.action, turns.held, turns.tier, turns.pass, turns.limit_key
            LIMIT $3::integer
        ) AS turns
    ) AS first
) AS ahead ON true
