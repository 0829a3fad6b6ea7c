-- name: ready_actions
--
-- Returns those of the actions of which a task can be fetched now.
--
--   $1 actions    text[]
--   $2 from_rank  bigint[]
--   $3 to_rank    bigint[]: where in the queue of each action to look, as in own_tasks
--
-- Below limits it says what own_gated and own_limited would find, without their locks. Tasks that
-- are parked for want of capacity, which maintainers bring back, do not count.
SELECT DISTINCT queue.action
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS queue (action, from_rank, to_rank)
LEFT JOIN LATERAL (
    SELECT limits.action, limits.fair,
           limits.paused_at IS NULL
           AND (limits.rate_tasks IS NULL
                OR limits.tokens + limits.rate_tasks / date_part('epoch', limits.rate_per)
                       * date_part('epoch', greatest(
                             statement_timestamp() - limits.refilled_at, interval '0'
                         )) >= 1)
           AND (limits.concurrency IS NULL
                OR limits.concurrency > (
                       SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
                       FROM stint.leased
                       WHERE leased.limited_action = queue.action
                   )) AS has_capacity
    FROM stint.limits
    WHERE limits.action = queue.action
    OFFSET 0
) AS limits ON true
WHERE limits.has_capacity IS NOT FALSE
  AND coalesce(
      (SELECT true
       FROM stint.ready
       WHERE ready.action = queue.action
         AND ready.rank BETWEEN queue.from_rank AND queue.to_rank
         AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
       ORDER BY ready.action, ready.rank, ready.hi
       LIMIT 1),
      -- Of a fair action all tasks are parked until it is their turn.
      (SELECT true
       FROM stint.turns
       WHERE limits.fair AND turns.action = queue.action AND NOT turns.held
       ORDER BY turns.action, turns.held, turns.tier
       LIMIT 1),
      -- Tokens of keys have come.
      (SELECT true
       FROM stint.key_rates
       WHERE limits.action IS NOT NULL AND key_rates.action = queue.action
         AND key_rates.wake_at <= statement_timestamp()
       ORDER BY key_rates.action, key_rates.wake_at
       LIMIT 1))
