-- name: next_limited
--
-- Returns what a caller that got no task with one of the actions, all of which have limits, can
-- wait for: whether some could be fetched all the same, since others were just taking them
-- (contended), and how long it is until there are tokens (pause), null if no rate holds anything
-- up. Where tasks wait for the return of others, the caller is told of it.
--
--   $1 actions    text[]
--   $2 max_tasks  integer
--   $3 from_rank  bigint[]
--   $4 to_rank    bigint[]: where in the queue of each action to look, as in own_tasks
--
-- Of a rate that is high, the tokens of 50 ms are worth the wait: a fetch of each alone would
-- cost more. A bucket that counts costs may owe what comes in a billion years: nobody is told to
-- wait for more than 100, which the caller can still count in nanoseconds.
SELECT coalesce(bool_or(queue.wanted <= queue.tokens OR queue.tokens IS NULL), false) AS contended,
       least(min(CASE WHEN queue.wanted > queue.tokens
                      THEN least((queue.wanted - queue.tokens) / queue.rate, 3162240000)
                               * interval '1 s'
                 END),
             (SELECT least(greatest(rates.wake_at - statement_timestamp(), interval '0'),
                          interval '36600 days')
              FROM unnest($1::text[]) AS named (action)
              CROSS JOIN LATERAL (
                  SELECT key_rates.wake_at
                  FROM stint.key_rates
                  WHERE key_rates.action = named.action AND key_rates.wake_at IS NOT NULL
                  ORDER BY key_rates.action, key_rates.wake_at
                  LIMIT 1
              ) AS rates
              ORDER BY rates.wake_at
              LIMIT 1)
       ) AS pause
FROM (
    SELECT limits.rate, limits.tokens,
           CASE WHEN limits.tokens >= 1 THEN 1
                ELSE least($2::integer, limits.rate_burst, greatest(1, ceil(limits.rate * 0.05)))
           END AS wanted
    FROM unnest($1::text[], $3::bigint[], $4::bigint[]) AS queue (action, from_rank, to_rank)
    CROSS JOIN LATERAL (
        SELECT limits.concurrency, limits.rate_burst, rate.per_second AS rate,
               least(limits.rate_burst,
                     limits.tokens + rate.per_second * date_part('epoch', greatest(
                         statement_timestamp() - limits.refilled_at, interval '0'
                     ))
               ) AS tokens
        FROM stint.limits
        CROSS JOIN LATERAL (
            SELECT limits.rate_tasks / date_part('epoch', limits.rate_per) AS per_second
        ) AS rate
        WHERE limits.action = queue.action AND limits.paused_at IS NULL
        OFFSET 0
    ) AS limits
    WHERE (limits.concurrency IS NULL OR limits.concurrency > (
               SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
               FROM stint.leased
               WHERE leased.limited_action = queue.action
           ))
      AND (SELECT true
           FROM stint.ready
           WHERE ready.action = queue.action
             AND ready.rank BETWEEN queue.from_rank AND queue.to_rank
             AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
           ORDER BY ready.action, ready.rank, ready.hi
           LIMIT 1) IS NOT NULL
) AS queue
