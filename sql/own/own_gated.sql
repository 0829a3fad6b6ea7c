-- name: own_gated
-- variants: own_at_once
--
-- Is own_limited for actions without limits of keys; keys may have turns. It takes two thirds of
-- the time, and meanwhile nobody else can be given tasks of these actions. If keys of some of the
-- actions have limits after all, nothing is fetched.
--
--   $1 claim      bigint
--   $2 actor      text
--   $3 max_tasks  integer
--   $4 actions    text[]
--   $5 lease      interval, null: for ever
--   $6 session    bigint, or null
--   $7 from_rank  bigint[]
--   $8 to_rank    bigint[]
--   $9 chosen     boolean: to fetch nothing under a claim that is known already
--   $10 dealt     integer: 1 if deal_turns came before, 2 deal_shared, 3 both; plus 4 if
--                 charge_costs comes behind; otherwise nothing is fetched of such actions, and of
--                 those that count costs one task; not of own_at_once
--
-- Answers as own_limited does.
--
-- own_at_once is for fair actions of which no task has to wait for its turn: it fetches all that
-- are ready, or nothing if these are more than are wanted or may be in progress, or if others wait
-- for their turns already. Then has_capacity is null: turns have to be dealt. Turns that nobody
-- waited for are not remembered by deal_turns either.
-- unless own_at_once
WITH asked AS MATERIALIZED (
-- end
-- in own_at_once: WITH allowed AS MATERIALIZED (
    -- Each action once, with what its limits allow, as in own_limited.
    SELECT queue.*, limits.action IS NOT NULL AS limited,
           coalesce(limits.keyed, false) AS keyed, coalesce(limits.turns, 0) AS turns,
           limits.key_tasks IS NOT NULL AS rates, limits.tokens,
           coalesce(limits.locks, false) AS locks,
           greatest(0, least(
               $3::integer,
               limits.concurrency - CASE WHEN limits.concurrency IS NOT NULL THEN (
                   SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
                   FROM stint.leased
                   WHERE leased.limited_action = queue.action
               ) END,
               floor(limits.tokens),
-- unless own_at_once
               CASE WHEN limits.paused OR limits.turns & ~$10::integer <> 0 THEN 0
                    WHEN limits.turns > 3 THEN 1 END
           ))::integer AS capacity
-- end
               -- in own_at_once: CASE WHEN limits.paused OR limits.turns > 1 THEN 0 END
           -- in own_at_once: ))::integer AS capacity
    FROM (
        SELECT queue.action, array_agg(queue.from_rank ORDER BY queue.from_rank) AS from_ranks,
               array_agg(queue.to_rank ORDER BY queue.from_rank) AS to_ranks
        FROM unnest($4::text[], $7::bigint[], $8::bigint[]) AS queue (action, from_rank, to_rank)
        WHERE NOT $9::boolean
           OR (SELECT true FROM stint.leases WHERE leases.claim = $1::bigint LIMIT 1) IS NULL
        GROUP BY queue.action
    ) AS queue
    LEFT JOIN LATERAL (
        SELECT limits.action, limits.concurrency, limits.key_tasks,
               limits.fair::integer << (limits.fair_group <> '')::integer
                   | (limits.by_cost::integer << 2) AS turns,
               limits.paused_at IS NOT NULL AS paused,
               limits.concurrency IS NOT NULL OR limits.rate_tasks IS NOT NULL OR limits.fair
                   AS locks,
               limits.per_key IS NOT NULL OR limits.key_tasks IS NOT NULL OR (
                   SELECT true
                   FROM stint.limited_keys
                   WHERE limited_keys.action = limits.action
                     AND limited_keys.paused_at IS NOT NULL
                   LIMIT 1
               ) IS NOT NULL AS keyed,
               least(
                   limits.rate_burst,
                   limits.tokens + limits.rate_tasks / date_part('epoch', limits.rate_per)
                       * date_part('epoch', greatest(
                             statement_timestamp() - limits.refilled_at, interval '0'
                         ))
               ) AS tokens
        FROM stint.limits
        WHERE limits.action = queue.action
        OFFSET 0
    ) AS limits ON true
-- in own_at_once: ), asked AS MATERIALIZED (
    -- in own_at_once: SELECT counted.*,
    -- in own_at_once:        CASE WHEN counted.waits THEN 0 ELSE counted.room END AS capacity
    -- in own_at_once: FROM (
    -- in own_at_once:     SELECT allowed.action, allowed.from_ranks, allowed.to_ranks,
    -- in own_at_once:            allowed.limited, allowed.keyed, allowed.turns, allowed.rates,
    -- in own_at_once:            allowed.tokens, allowed.locks, allowed.capacity AS room,
    -- in own_at_once:            allowed.turns > 0 AND allowed.capacity > 0 AND (
    -- in own_at_once:                ready.tasks > allowed.capacity
    -- in own_at_once:                OR ready.tasks > 0 AND sum(ready.tasks) OVER () > $3::integer
    -- in own_at_once:                OR (SELECT true
    -- in own_at_once:                    FROM stint.turns
    -- in own_at_once:                    WHERE turns.action = allowed.action
    -- in own_at_once:                    ORDER BY turns.action, turns.held, turns.tier
    -- in own_at_once:                    LIMIT 1) IS NOT NULL
    -- in own_at_once:            ) AS waits
    -- in own_at_once:     FROM allowed
    -- in own_at_once:     CROSS JOIN LATERAL (
    -- in own_at_once:         SELECT coalesce(sum(head.hi - head.lo + 1), 0) AS tasks
    -- in own_at_once:         FROM (
    -- in own_at_once:             SELECT ready.lo, ready.hi
    -- in own_at_once:             FROM stint.ready
    -- in own_at_once:             WHERE ready.action = allowed.action AND ready.rank >= 0
    -- in own_at_once:               AND (ready.deadline IS NULL
    -- in own_at_once:                    OR ready.deadline > statement_timestamp())
    -- in own_at_once:             ORDER BY ready.action, ready.rank, ready.hi
    -- in own_at_once:             LIMIT $3::integer + 1
    -- in own_at_once:         ) AS head
    -- in own_at_once:     ) AS ready
    -- in own_at_once: ) AS counted
), head AS MATERIALIZED (
    -- The head of each queue is looked at without locking, to share $3 out among the queues by
    -- priority and age.
    SELECT asked.action, asked.capacity, asked.limited, range.from_rank, range.to_rank,
           span.priority, span.rank, span.hi, span.hi - span.lo + 1 AS size
    FROM asked
    CROSS JOIN LATERAL unnest(asked.from_ranks, asked.to_ranks) AS range (from_rank, to_rank)
    CROSS JOIN LATERAL (
        SELECT ready.priority, ready.rank, ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = asked.action
          AND ready.rank BETWEEN range.from_rank AND range.to_rank
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT least(asked.capacity, greatest(16, 2 * $3::integer / cardinality($4::text[]) + 1))
    ) AS span
    WHERE asked.capacity > 0 AND (SELECT true FROM asked WHERE asked.keyed LIMIT 1) IS NULL
), floor AS MATERIALIZED (
    SELECT head.action, head.priority, min(head.rank) AS rank
    FROM head
    GROUP BY head.action, head.priority
), share AS (
    -- How many spans of each queue are among the first that hold $3 tasks.
    SELECT counted.action, counted.capacity, counted.limited, counted.from_rank, counted.to_rank,
           count(*) AS spans
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before
        FROM (
            SELECT head.*,
                   least(head.size,
                         head.capacity + head.size - sum(head.size) OVER of_action) AS fits
            FROM head
            WINDOW of_action AS (PARTITION BY head.action ORDER BY head.rank, head.hi)
        ) AS fitting
        WHERE fitting.fits > 0
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.before < $3::integer
    GROUP BY counted.action, counted.capacity, counted.limited, counted.from_rank, counted.to_rank
    ORDER BY min(counted.rank)
), picked AS MATERIALIZED (
    SELECT share.capacity, share.limited, span.*, span.hi - span.lo + 1 AS size
    FROM share
    CROSS JOIN LATERAL (
        SELECT ready.*
        FROM stint.ready
        WHERE ready.action = share.action
          AND ready.rank BETWEEN share.from_rank AND share.to_rank
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT share.spans
        FOR UPDATE SKIP LOCKED
    ) AS span
), taken AS MATERIALIZED (
    -- Of each span the tasks up to last.
    SELECT counted.*,
           counted.lo + least(counted.fits, $3::integer - counted.before)::bigint - 1 AS last
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before
        FROM (
            SELECT picked.*, least(
                       picked.size, picked.capacity + picked.size - sum(picked.size) OVER of_action
                   ) AS fits
            FROM picked
            WINDOW of_action AS (PARTITION BY picked.action ORDER BY picked.rank, picked.hi)
        ) AS fitting
        WHERE fitting.fits > 0
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.before < $3::integer
), gone AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT taken.lo FROM taken))
), rest AS (
    -- What is left goes back in two halves, as in own_tasks.
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             limit_key, ready_at)
    SELECT taken.position, half.lo, half.hi, taken.action, taken.priority, taken.tries,
           taken.completed, taken.aborted, taken.limit_key, taken.ready_at
    FROM taken
    CROSS JOIN LATERAL (
        VALUES (taken.last + 1, (taken.last + taken.hi + 1) / 2),
               ((taken.last + taken.hi + 1) / 2 + 1, taken.hi)
    ) AS half (lo, hi)
    WHERE half.lo <= half.hi
), paid AS (
    -- Tokens are paid out of what has come in by now. A bucket that was filled in the future, since
    -- the clock was ahead, has been filled now: otherwise no token would come until then.
    UPDATE stint.limits
    SET refilled_at = statement_timestamp(), tokens = paying.tokens - coalesce(paying.tasks, 0)
    FROM (
        SELECT asked.action, asked.tokens, (
                   SELECT sum(taken.last - taken.lo + 1)
                   FROM taken
                   WHERE taken.action = asked.action) AS tasks
        FROM asked WHERE asked.tokens IS NOT NULL
    ) AS paying
    WHERE limits.action = paying.action
      AND (paying.tasks > 0 OR limits.refilled_at > statement_timestamp())
), leased AS (
    INSERT INTO stint.leased (lo, hi, claim, tries, completed, aborted, status, limited_action,
                              ready_at)
    SELECT taken.lo, taken.last, $1::bigint, taken.tries + 1, taken.completed, taken.aborted,
           taken.status, CASE WHEN taken.limited THEN taken.action END, taken.ready_at
    FROM taken
), lease AS (
    INSERT INTO stint.leases (claim, actor, session, deadline, size, spans)
    SELECT $1::bigint, $2::text, $6::bigint,
           coalesce(statement_timestamp() + $5::interval, 'infinity'),
           sum(taken.last - taken.lo + 1),
           array_agg(ARRAY[taken.lo, taken.last] ORDER BY taken.rank, taken.lo)
    FROM taken
    HAVING count(*) > 0
)
SELECT taken.lo, taken.last AS hi, taken.rank, taken.floor,
       (SELECT true
        FROM stint.edges
        WHERE edges.after BETWEEN taken.lo AND taken.last
        LIMIT 1) IS NOT NULL AS signals,
       '' AS parked, taken.action, NULL AS turns, NULL AS rates, NULL AS keyed, NULL AS locks,
       NULL AS has_capacity
FROM (
    -- Sorted in with the spans, as in own_tasks.
    SELECT met.*, max(met.least) OVER (PARTITION BY met.action, met.priority) AS floor
    FROM (
        SELECT taken.action, taken.priority, taken.lo, taken.last, taken.rank,
               NULL::bigint AS least
        FROM taken
        UNION ALL
        SELECT floor.action, floor.priority, NULL, NULL, NULL, floor.rank FROM floor
    ) AS met
) AS taken
WHERE taken.lo IS NOT NULL
UNION ALL
SELECT 0, 0, 0, NULL, NULL, '', asked.action, asked.turns, asked.rates, asked.keyed, asked.locks,
-- unless own_at_once
       asked.capacity > 0
-- end
       -- in own_at_once: CASE WHEN NOT asked.waits THEN asked.capacity > 0 END
FROM asked
WHERE asked.limited
