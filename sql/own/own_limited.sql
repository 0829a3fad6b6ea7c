-- name: own_limited
--
-- Does what own_tasks does, for actions of which some have limits, behind lock_limits.
--
--   $1 to $8      as in own_tasks
--   $9 chosen     boolean: to fetch nothing under a claim that is known already
--   $10 dealt     integer: as in own_gated; plus 8 to begin where $7 says, and park nothing: tasks
--                 that are ahead of that keep later ones of their keys from being taken
--   $11 look      integer: how many tasks to look at; 0: those wanted that there is capacity for
--
-- Of an action with limits no more is taken than there is capacity for: the concurrency less what
-- is owned, and the tokens of its rate. If its keys have limits, too, each task that is about to be
-- taken gets a slot of its key. If that fills the key, its remaining tasks are parked: their rows
-- of ready get a negative position, where no fetch meets them, until unpark_within_limits. So a
-- task beyond the limit of its key is met once, not by each fetch. It comes back to the very
-- beginning of the queue, so a task is only parked if all older ones of its key are taken or
-- parked, too: of the keys a b a c a a, with a limit per key of 1, a caller that wants 5 gets 1, 2
-- and 4; 3 and 5 are parked, 6 goes back. (ADR 30 has what is different in strict order.)
--
-- Answers with the spans that are fetched, whose tasks claimed_tasks reads behind the commit:
-- whoever waits for the lock of lock_limits does not wait for them. floor is the least rank of the
-- priority that was seen, signals says that other tasks wait for one of the span. Further rows,
-- where signals is null, name the keys of which tasks were parked and, without a key, the actions
-- that have limits, and which; has_capacity says whether the action itself had capacity, or that no
-- task of the key was passed that somebody else is changing.
WITH asked AS MATERIALIZED (
    -- Each action once, with what its limits allow. keyed says that keys have limits.
    SELECT queue.*, limits.action IS NOT NULL AS limited,
           coalesce(num_nonnulls(limits.per_key, limits.key_tasks) > 0 OR limits.pauses, false)
               AS keyed,
           limits.tokens, limits.per_key, least(limits.per_key, limits.key_burst) AS bound,
           coalesce(limits.pauses, false) AS pauses, coalesce(limits.turns, 0) AS turns,
           limits.key_tasks IS NOT NULL AS rates, coalesce(limits.locks, false) AS locks,
           coalesce(limits.ordered, false) AS ordered,
           greatest(0, least(
               $3::integer,
               limits.concurrency - CASE WHEN limits.concurrency IS NOT NULL THEN (
                   SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
                   FROM stint.leased WHERE leased.limited_action = queue.action
               ) END,
               floor(limits.tokens),
               CASE WHEN limits.paused OR limits.turns & ~$10::integer <> 0 THEN 0
                    WHEN limits.turns > 3 THEN 1 END
           ))::integer AS capacity
    FROM (
        SELECT queue.action, array_agg(queue.from_rank ORDER BY queue.from_rank) AS from_ranks,
               array_agg(queue.to_rank ORDER BY queue.from_rank) AS to_ranks
        FROM unnest($4::text[], $7::bigint[], $8::bigint[]) AS queue (action, from_rank, to_rank)
        WHERE NOT $9::boolean
           OR (SELECT true FROM stint.leases WHERE leases.claim = $1::bigint LIMIT 1) IS NULL
        GROUP BY queue.action
    ) AS queue
    LEFT JOIN LATERAL (
        SELECT limits.action, limits.per_key, limits.key_tasks, limits.key_burst, limits.ordered,
               limits.fair::integer << (limits.fair_group <> '')::integer
                   | (limits.by_cost::integer << 2) AS turns,
               limits.concurrency,
               limits.paused_at IS NOT NULL AS paused, limits.concurrency IS NOT NULL
                   OR limits.rate_tasks IS NOT NULL OR limits.fair OR limits.ordered AS locks,
               (SELECT true FROM stint.limited_keys
                WHERE limited_keys.action = limits.action AND limited_keys.paused_at IS NOT NULL
                LIMIT 1) IS NOT NULL AS pauses,
               least(limits.rate_burst,
                     limits.tokens + limits.rate_tasks / date_part('epoch', limits.rate_per)
                         * date_part('epoch', greatest(
                               statement_timestamp() - limits.refilled_at, interval '0'))) AS tokens
        FROM stint.limits WHERE limits.action = queue.action OFFSET 0
    ) AS limits ON true
), head AS MATERIALIZED (
    -- The head of each queue is looked at without locking, to share $3 out among the queues by
    -- priority and age. Spans that are known to be of one key count as many tasks, together, as the
    -- key may have; those behind count none.
    SELECT span.*, greatest(span.capacity, $11::integer) AS look,
           least(span.tasks, CASE WHEN span.limit_key <> '' AND span.bound IS NOT NULL THEN
                     greatest(0, span.bound + span.tasks - sum(span.tasks) OVER of_key) END) AS size
    FROM (
        SELECT asked.action, asked.capacity, asked.limited, asked.keyed, asked.per_key, asked.bound,
               asked.ordered, range.from_rank, range.to_rank, span.*,
               span.hi - span.lo + 1 AS tasks
        FROM asked
        CROSS JOIN LATERAL unnest(
            CASE WHEN asked.ordered AND $10::integer < 8 THEN '{0}' ELSE asked.from_ranks END,
            CASE WHEN asked.ordered THEN '{9223372036854775807}' ELSE asked.to_ranks END
        ) AS range (from_rank, to_rank)
        CROSS JOIN LATERAL (
            SELECT ready.priority, ready.rank, ready.lo, ready.hi, ready.limit_key FROM stint.ready
            WHERE ready.action = asked.action
              AND ready.rank BETWEEN range.from_rank AND range.to_rank
              AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
            ORDER BY ready.action, ready.rank, ready.hi
            LIMIT greatest(16, least(
                greatest($3::integer, $11::integer),
                2 * greatest($3::integer, $11::integer) / cardinality($4::text[]) + 1))
        ) AS span
        WHERE asked.capacity > 0
    ) AS span
    WINDOW of_key AS (PARTITION BY span.action, span.limit_key ORDER BY span.rank, span.hi)
), floor AS MATERIALIZED (
    -- What is in strict order is always looked at from the beginning of its priority.
    SELECT head.action, head.priority,
           min(CASE WHEN head.ordered THEN head.rank >> 47 << 47 ELSE head.rank END) AS rank
    FROM head GROUP BY head.action, head.priority
), share AS (
    -- How many spans of each queue come up to the last one that is among the first tasks.
    SELECT counted.action, counted.capacity, counted.look, counted.limited, counted.keyed,
           counted.per_key, counted.bound, counted.ordered, counted.from_rank, counted.to_rank,
           max(counted.place) AS spans
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before,
               row_number() OVER (PARTITION BY fitting.action, fitting.from_rank
                                  ORDER BY fitting.rank, fitting.hi) AS place
        FROM (
            SELECT head.*, greatest(0, least(
                       head.size, head.look + head.size - sum(head.size) OVER of_action)) AS fits
            FROM head WINDOW of_action AS (PARTITION BY head.action ORDER BY head.rank, head.hi)
        ) AS fitting
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.fits > 0 AND counted.before < greatest($3::integer, $11::integer)
    GROUP BY counted.action, counted.capacity, counted.look, counted.limited, counted.keyed,
             counted.per_key, counted.bound, counted.ordered, counted.from_rank, counted.to_rank
    ORDER BY min(counted.rank)
), picked AS MATERIALIZED (
    SELECT share.capacity, share.look, share.limited, share.keyed, share.per_key, share.bound,
           share.ordered, span.*, span.hi - span.lo + 1 AS tasks
    FROM share CROSS JOIN LATERAL (
        SELECT ready AS span, ready.action, ready.rank, ready.lo, ready.hi, ready.limit_key
        FROM stint.ready WHERE ready.action = share.action
          AND ready.rank BETWEEN share.from_rank AND share.to_rank
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi LIMIT share.spans FOR UPDATE SKIP LOCKED
    ) AS span
), passed AS MATERIALIZED (
    -- What is ahead of a span that is picked, and is not as it was seen, since somebody else is
    -- changing it, keeps the later tasks of its keys from being taken, if these are in order. So
    -- does what is not looked at; then the keys are those of the spans that are picked.
    SELECT ahead.action, ahead.limit_key, min(ahead.place) AS place
    FROM (
        SELECT span.action, task.limit_key, ARRAY[span.rank, task.key] AS place
        FROM (
            SELECT ready.action, ready.rank, ready.lo, ready.hi FROM (
                SELECT picked.action, max(picked.rank) AS rank
                FROM picked WHERE picked.ordered OR $10::integer > 7 GROUP BY picked.action
            ) AS last
            CROSS JOIN LATERAL (
                SELECT ready.action, ready.rank, ready.lo, ready.hi FROM stint.ready
                WHERE ready.action = last.action AND ready.rank BETWEEN 0 AND last.rank
                  AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
                ORDER BY ready.action, ready.rank, ready.hi
            ) AS ready
            EXCEPT
            SELECT picked.action, picked.rank, picked.lo, picked.hi FROM picked
        ) AS span
        CROSS JOIN LATERAL (
            SELECT tasks.key, tasks.limit_key FROM stint.tasks
            WHERE tasks.key BETWEEN span.lo AND span.hi AND tasks.limit_key IS NOT NULL
        ) AS task
        UNION ALL
        SELECT picked.action, tasks.limit_key, NULL FROM picked
        JOIN stint.tasks ON tasks.key BETWEEN picked.lo AND picked.hi WHERE $10::integer > 7
    ) AS ahead
    GROUP BY ahead.action, ahead.limit_key
    HAVING $10::integer < 8 OR count(*) > count(ahead.place) AND count(ahead.place) > 0
), offered AS MATERIALIZED (
    -- Of each span the tasks up to last are looked at.
    SELECT counted.*, counted.lo - 1 + least(
               counted.fits, greatest($3::integer, $11::integer) - counted.before)::bigint AS last
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before
        FROM (
            SELECT sized.*, greatest(0, least(
                       sized.size, sized.look + sized.size - sum(sized.size) OVER of_action
                   )) AS fits
            FROM (
                SELECT picked.*, least(
                           picked.tasks,
                           CASE WHEN picked.limit_key <> '' AND picked.bound IS NOT NULL
                                THEN greatest(0, picked.bound + picked.tasks
                                                     - sum(picked.tasks) OVER of_key) END) AS size
                FROM picked
                WINDOW of_key AS (PARTITION BY picked.action, picked.limit_key
                                  ORDER BY picked.rank, picked.hi)
            ) AS sized
            WINDOW of_action AS (PARTITION BY sized.action ORDER BY sized.rank, sized.hi)
        ) AS fitting
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.fits > 0 AND counted.before < greatest($3::integer, $11::integer)
), task AS MATERIALIZED (
    -- The tasks of actions whose keys have limits, with their keys; empty, if a task has none.
    -- Whoever looks at more than it wants needs all tasks, to choose.
    SELECT offered.lo AS span, offered.action, offered.capacity, offered.rank, offered.per_key,
           task.key, task.limit_key
    FROM offered
    CROSS JOIN LATERAL (
        SELECT tasks.key, coalesce(tasks.limit_key, '') AS limit_key FROM stint.tasks
        WHERE offered.keyed AND offered.limit_key IS NULL
          AND tasks.key BETWEEN offered.lo AND offered.last
        UNION ALL
        SELECT known.key, CASE WHEN offered.keyed THEN offered.limit_key ELSE '' END
        FROM generate_series(offered.lo, offered.last) AS known (key)
        WHERE NOT offered.keyed OR offered.limit_key IS NOT NULL
    ) AS task
    WHERE offered.keyed OR $11::integer > 0
), named AS MATERIALIZED (
    -- The keys, with the slots that are held, whether any slots have rows, and how many more of
    -- their tasks may be taken: as many as there are slots, and tokens.
    SELECT named.*, held.slots, held.known, bucket.full_at, bucket.each,
           CASE WHEN paused.key IS NOT NULL THEN 0 ELSE greatest(0, least(
                    named.per_key - held.tasks, bucket.tokens,
                    CASE WHEN named.holders IS NULL THEN parked.ahead
                         WHEN named.place IS NULL THEN 0 END,
                    cardinality(named.keys) + 1)) END::integer AS most
    FROM (
        -- Where a task holds its key, it is the only one that may be taken.
        SELECT found.action, found.limit_key, found.capacity, found.per_key, holding.*,
               coalesce(found.keys[holding.place:holding.place], found.keys) AS keys,
               coalesce(found.ranks[holding.place:holding.place], found.ranks) AS ranks
        FROM (
            SELECT task.action, task.limit_key, task.capacity, task.per_key,
                   array_agg(task.key) AS keys, array_agg(task.rank) AS ranks
            FROM (
                SELECT * FROM task WHERE task.limit_key <> ''
                ORDER BY action, limit_key, task.capacity, task.per_key, task.rank, task.key
            ) AS task
            GROUP BY task.action, task.limit_key, task.capacity, task.per_key) AS found
        LEFT JOIN LATERAL (
            SELECT array_agg(holders.key) AS holders,
                   min(array_position(found.keys, holders.key)) AS place
            FROM stint.holders
            WHERE holders.action = found.action AND holders.limit_key = found.limit_key
              AND (SELECT true FROM asked WHERE asked.ordered LIMIT 1)
            HAVING count(*) > 0
        ) AS holding ON true
    ) AS named
    LEFT JOIN LATERAL (
        SELECT limited_keys.limit_key AS key FROM stint.limited_keys
        WHERE limited_keys.action = named.action AND limited_keys.limit_key = named.limit_key
          AND limited_keys.paused_at IS NOT NULL
          AND (SELECT true FROM asked WHERE asked.pauses LIMIT 1) OFFSET 0
    ) AS paused ON true
    LEFT JOIN LATERAL (
        -- each is how many seconds a token takes.
        SELECT rate.each, rates.full_at, floor(limits.key_burst - greatest(
                   date_part('epoch', rates.full_at - statement_timestamp()), 0
               ) / rate.each + 0.000001) AS tokens
        FROM stint.limits
        CROSS JOIN LATERAL (
            SELECT date_part('epoch', limits.key_per) / limits.key_tasks AS each) AS rate
        LEFT JOIN LATERAL (
            SELECT key_rates.full_at FROM stint.key_rates
            WHERE key_rates.action = named.action AND key_rates.limit_key = named.limit_key OFFSET 0
        ) AS rates ON true
        WHERE limits.action = named.action AND limits.key_tasks IS NOT NULL
          AND (SELECT true FROM asked WHERE asked.rates LIMIT 1) OFFSET 0
    ) AS bucket ON true
    LEFT JOIN LATERAL (
        -- Tokens and turns come while tasks of the key are parked. Those ahead may be taken.
        SELECT (SELECT nullif(count(*), cardinality(named.keys))
                FROM unnest(named.keys, named.ranks) AS of_key (key, rank)
                WHERE ARRAY[of_key.rank, of_key.key] < first.place) AS ahead
        FROM (
            SELECT least((
                       SELECT ARRAY[ready.rank & 9223372036854775807 /* as it was */, ready.lo]
                       FROM stint.ready
                       WHERE ready.action = named.action AND ready.limit_key = named.limit_key
                         AND ready.position < 0
                         AND (SELECT true FROM asked
                              WHERE asked.rates OR asked.turns > 0 OR asked.ordered LIMIT 1)
                       ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi LIMIT 1
                   ), (
                       SELECT passed.place FROM passed
                       WHERE passed.action = named.action AND passed.limit_key = named.limit_key
                   )) AS place
        ) AS first
        WHERE first.place IS NOT NULL
    ) AS parked ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(slot.slot) FILTER (WHERE slot.held OR slot.key <> named.keys[1]
                            AND slot.key = ANY (named.holders)), '{}') AS slots,
               count(*) FILTER (WHERE slot.held) AS tasks, count(*) > 0 AS known FROM (
            SELECT slots.slot, slots.key, (
                       SELECT leased.hi >= slots.key AND leased.claim = slots.claim
                       FROM stint.leased WHERE leased.lo BETWEEN slots.key >> 10 << 10 AND slots.key
                       ORDER BY leased.lo DESC LIMIT 1) AS held
            FROM stint.slots
            WHERE slots.action = named.action AND slots.limit_key = named.limit_key
              AND named.per_key IS NOT NULL OFFSET 0
        ) AS slot
    ) AS held
), reach AS MATERIALIZED (
    -- How far the tasks go that are taken, if it is looked at more: the last one of each action.
    SELECT within.action, max(ARRAY[within.rank, within.key]) AS last
    FROM (
        SELECT free.* FROM (
            SELECT free.*, row_number() OVER (PARTITION BY free.action
                                              ORDER BY free.rank, free.key) AS n
            FROM (
                SELECT task.action, task.capacity, task.rank, task.key
                FROM task WHERE task.limit_key = '' AND $11::integer > 0
                UNION ALL
                SELECT named.action, named.capacity, of_key.rank, of_key.key FROM named
                CROSS JOIN LATERAL unnest(named.keys[1:named.most], named.ranks[1:named.most])
                    AS of_key (key, rank)
                WHERE $11::integer > 0
            ) AS free
        ) AS free
        WHERE free.n <= free.capacity ORDER BY free.rank, free.key LIMIT $3::integer
    ) AS within GROUP BY within.action
), key AS MATERIALIZED (
    -- The keys with how many of their tasks are to be taken, and whether they are full with that.
    SELECT named.*, taken.tasks AS takes,
           taken.tasks >= named.most AND $10::integer < 8 AS is_full FROM named
    CROSS JOIN LATERAL (
        SELECT CASE WHEN $11::integer > 0 THEN (
                   SELECT count(*) FROM unnest(
                       named.keys[1:named.most], named.ranks[1:named.most]) AS of_key (key, rank)
                   WHERE ARRAY[of_key.rank, of_key.key] <= (
                       SELECT reach.last FROM reach WHERE reach.action = named.action)
               ) ELSE least(cardinality(named.keys), named.most) END::integer AS tasks
        OFFSET 0
    ) AS taken
), beyond AS MATERIALIZED (
    -- Whether the head has more than is looked at.
    SELECT (SELECT count(*) FROM head) > (SELECT count(*) FROM offered)
           OR (SELECT true FROM offered WHERE offered.last < offered.hi LIMIT 1) IS NOT NULL AS yes
), met AS MATERIALIZED (
    -- The spans of the head that are known to be of one key that is full: what they have beyond
    -- what is looked at is parked, too, but nothing behind the first task whose key is not known:
    -- it may be an older one of the same key.
    SELECT met.* FROM (
        SELECT one.*, bool_or(one.is_full) OVER (PARTITION BY one.action, one.limit_key) AS parks,
               min(CASE WHEN one.limit_key IS NULL AND one.last IS DISTINCT FROM one.hi
                             AND ARRAY[one.rank, one.hi] >= one.seen THEN ARRAY[one.rank, one.hi]
                   END) OVER (PARTITION BY one.action) AS unknown
        FROM (
            -- seen is the last span of the action that is looked at. What comes before it and is
            -- not has been locked by somebody else.
            SELECT span.action, span.limit_key, span.rank, span.lo, span.hi,
                   max(span.last) OVER (PARTITION BY span.lo) AS last,
                   max(CASE WHEN span.last IS NOT NULL THEN ARRAY[span.rank, span.hi] END)
                       OVER (PARTITION BY span.action) AS seen,
                   false AS is_full
            FROM (
                SELECT head.action, head.limit_key, head.rank, head.lo, head.hi, NULL::bigint
                FROM head WHERE head.keyed AND (SELECT beyond.yes FROM beyond)
                UNION ALL
                SELECT offered.action, offered.limit_key, offered.rank, offered.lo, offered.hi,
                       offered.last
                FROM offered WHERE offered.keyed AND (SELECT beyond.yes FROM beyond)
            ) AS span (action, limit_key, rank, lo, hi, last)
            UNION ALL
            SELECT key.action, key.limit_key, NULL, NULL, NULL, NULL, NULL, true
            FROM key WHERE key.is_full AND (SELECT beyond.yes FROM beyond)
        ) AS one
    ) AS met
    WHERE met.parks AND met.lo IS NOT NULL AND met.limit_key <> ''
      AND (met.unknown IS NULL OR ARRAY[met.rank, met.hi] < met.unknown)
), behind AS MATERIALIZED (
    SELECT ready.* FROM met CROSS JOIN LATERAL (
        SELECT ready AS span, ready.lo, ready.hi, ready.limit_key
        FROM stint.ready
        WHERE ready.action = met.action AND ready.rank = met.rank AND ready.hi = met.hi
          AND ready.lo = met.lo FOR UPDATE SKIP LOCKED
    ) AS ready WHERE met.last IS NULL
), paid_key AS (
    -- Tokens are paid out of the bucket that was seen, which comes as wake_at, or not at all.
    INSERT INTO stint.key_rates AS key_rates (action, limit_key, full_at, seen_at, wake_at)
    SELECT key.action, key.limit_key, greatest(key.full_at, statement_timestamp())
               + ceil(key.takes * key.each * 1000000) * interval '1 us', statement_timestamp(),
           key.full_at
    FROM key WHERE key.each IS NOT NULL AND key.takes > 0 ORDER BY key.action, key.limit_key
    ON CONFLICT (action, limit_key) DO UPDATE
    SET full_at = excluded.full_at, seen_at = CASE WHEN key_rates.full_at > excluded.seen_at
            THEN coalesce(key_rates.seen_at, key_rates.full_at) ELSE excluded.seen_at END
    WHERE key_rates.full_at = excluded.wake_at
    RETURNING key_rates.action, key_rates.limit_key
), unpaid AS MATERIALIZED (
    -- The tasks of the keys of which somebody else has just paid.
    SELECT coalesce(array_agg(task.key), '{}') AS keys FROM (
        SELECT key.action, key.limit_key FROM key WHERE key.each IS NOT NULL AND key.takes > 0
        EXCEPT SELECT paid_key.action, paid_key.limit_key FROM paid_key) AS lost
    JOIN key ON key.action = lost.action AND key.limit_key = lost.limit_key
    CROSS JOIN LATERAL unnest(key.keys) AS task (key)
), won AS (
    -- The lowest free slots, so that two fetches that see the same capacity want the same slots,
    -- and only one gets them: a slot without a row, or one that still has the claim that is known
    -- to hold it no more. They are taken in the order of the primary key, so that nobody deadlocks.
    INSERT INTO stint.slots AS slots (action, limit_key, slot, key, claim, claim_before)
    SELECT wanted.action, wanted.limit_key, wanted.slot, wanted.key, $1::bigint,
           CASE WHEN wanted.known THEN (
               SELECT before.claim FROM stint.slots AS before
               WHERE before.action = wanted.action AND before.limit_key = wanted.limit_key
                 AND before.slot = wanted.slot) END
    FROM (
        SELECT key.action, key.limit_key, key.known, (free.n - 1)::integer AS slot, free.key
        FROM key CROSS JOIN LATERAL unnest(key.keys[1:key.takes]) WITH ORDINALITY AS free (key, n)
        WHERE key.per_key IS NOT NULL AND key.slots = '{}'
        UNION ALL
        SELECT key.action, key.limit_key, key.known, free.slot, key.keys[free.n] FROM key
        CROSS JOIN LATERAL (
            SELECT free.slot, row_number() OVER (ORDER BY free.slot) AS n
            FROM generate_series(0, cardinality(key.slots) + key.takes - 1) AS free (slot)
            WHERE free.slot <> ALL (key.slots)
            ORDER BY free.slot LIMIT key.takes
        ) AS free
        WHERE key.per_key IS NOT NULL AND key.slots <> '{}' AND key.takes > 0
    ) AS wanted
    WHERE (SELECT count(*) FROM paid_key) >= 0 -- all buckets are locked ahead of the first slot
    ORDER BY wanted.action, wanted.limit_key, wanted.slot
    ON CONFLICT (action, limit_key, slot) DO UPDATE
    SET key = excluded.key, claim = excluded.claim, claim_before = excluded.claim_before
    WHERE slots.claim = excluded.claim_before
    RETURNING slots.key
), taken AS MATERIALIZED (
    SELECT one.key FROM (
        SELECT won.key FROM won
        UNION ALL
        SELECT task.key FROM task
        WHERE task.limit_key = ''
          AND ($11::integer = 0 OR ARRAY[task.rank, task.key] <= (
                   SELECT reach.last FROM reach WHERE reach.action = task.action))
        UNION ALL
        SELECT unnest(key.keys[1:key.takes]) FROM key WHERE key.per_key IS NULL
    ) AS one WHERE one.key <> ALL ((SELECT unpaid.keys FROM unpaid)::bigint[])
), all_taken AS MATERIALIZED (
    SELECT (SELECT count(*) FROM taken) = (SELECT count(*) FROM task) AS yes
), judged AS MATERIALIZED (
    -- Unless all tasks are taken: sorted by key, one that is taken or stays in the queue is
    -- followed by its key among those that are, or do; all others are to be parked. A join would
    -- compare all pairs.
    SELECT judged.*, max(CASE WHEN judged.fate <> 'stays' THEN judged.key END)
                         OVER (PARTITION BY judged.span) AS last
    FROM (
        SELECT one.span, one.key, one.limit_key,
               CASE WHEN lead(one.key, 1, 0::bigint) OVER by_key = one.key
                    THEN lead(one.fate) OVER by_key WHEN $10::integer > 7 THEN 'stays'
                    ELSE 'parked' END AS fate
        FROM (
            SELECT task.span, task.key, task.limit_key, NULL AS fate FROM task
            UNION ALL
            SELECT NULL, taken.key, NULL, 'taken' FROM taken
            UNION ALL
            SELECT NULL, unnest(key.keys[key.takes + 1:]), NULL, 'stays'
            FROM key WHERE NOT key.is_full
            UNION ALL
            SELECT NULL, task.key, NULL, 'stays' FROM task
            WHERE task.limit_key = '' AND $11::integer > 0
              AND (ARRAY[task.rank, task.key] <= (
                      SELECT reach.last FROM reach WHERE reach.action = task.action)) IS NOT TRUE
        ) AS one
        WHERE NOT (SELECT all_taken.yes FROM all_taken)
        WINDOW by_key AS (ORDER BY one.key, one.span)
    ) AS judged WHERE judged.span IS NOT NULL
), part AS MATERIALIZED (
    -- The tasks of a span that follow one another and have the same fate, those to be parked with
    -- the same key; or all. Those that stay behind the last one that does not are left out.
    SELECT part.span, part.fate, min(part.limit_key) AS limit_key,
           min(part.key) AS lo, max(part.key) AS hi, min(part.last) AS last
    FROM (
        SELECT judged.*, judged.key - row_number() OVER (
                   PARTITION BY judged.span, judged.fate,
                                CASE WHEN judged.fate = 'parked' THEN judged.limit_key END
                   ORDER BY judged.key) AS place
        FROM judged WHERE judged.key <= judged.last
    ) AS part
    GROUP BY part.span, part.fate, CASE WHEN part.fate = 'parked' THEN part.limit_key END,
             part.place
    UNION ALL
    SELECT offered.lo, 'taken', NULL, offered.lo, offered.last, offered.last FROM offered
    WHERE NOT offered.keyed AND $11::integer = 0 OR (SELECT all_taken.yes FROM all_taken)
    UNION ALL
    SELECT behind.lo, 'parked', behind.limit_key, behind.lo, behind.hi, behind.hi FROM behind
), run AS MATERIALIZED (
    -- Each part with its span, which is sorted ahead of its parts. With a key that is known to be
    -- that of the whole span, its rest is parked, too. is_full says that the rest, which goes back
    -- in two halves up to middle and behind it, is to be parked in any case.
    SELECT run.*,
           CASE WHEN run.fate = 'parked' AND run.stop = run.last AND run.known IS NOT NULL
                THEN run.span_hi ELSE run.stop END AS hi,
           CASE WHEN run.is_full THEN run.span_hi
                ELSE (run.last + run.span_hi + 1) / 2 END AS middle
    FROM (
        SELECT run.head, run.fate, run.lo, run.stop, run.last, run.limit_key, run.limited,
               coalesce(run.is_full, false) AS is_full, (run.span).hi AS span_hi,
               (run.span).limit_key AS known, (run.span).position, (run.span).rank,
               (run.span).action, (run.span).priority, (run.span).tries, (run.span).completed,
               (run.span).aborted, (run.span).status, (run.span).ready_at
        FROM (
            SELECT lined.head, lined.fate, lined.lo, lined.stop, lined.last, lined.limit_key,
                   bool_or(lined.limited) OVER of_span AS limited,
                   bool_or(lined.is_full) OVER of_span AS is_full,
                   first_value(lined.span) OVER of_span AS span
            FROM (
                SELECT offered.lo AS head, -1 AS lo, NULL::bigint AS stop, NULL::bigint AS last,
                       NULL AS fate, NULL AS limit_key, offered.limited, false AS is_full,
                       offered.span FROM offered
                UNION ALL
                SELECT behind.lo, -1, NULL, NULL, NULL, NULL, true, false, behind.span FROM behind
                UNION ALL
                SELECT met.lo, 0, NULL, NULL, NULL, NULL, false, true, NULL
                FROM met WHERE met.last IS NOT NULL
                UNION ALL
                SELECT part.span, part.lo, part.hi, part.last, part.fate, part.limit_key, false,
                       false, NULL FROM part
            ) AS lined WINDOW of_span AS (PARTITION BY lined.head ORDER BY lined.lo)
        ) AS run WHERE run.stop IS NOT NULL
    ) AS run
), gone AS (
    -- The row of a span goes if its first task is taken.
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(
        SELECT run.lo FROM run WHERE run.fate = 'taken' AND run.lo = run.head))
), firsts AS MATERIALIZED (
    SELECT array_agg(run.lo ORDER BY run.lo) AS lo, array_agg(run.hi ORDER BY run.lo) AS hi,
           array_agg(run.fate = 'parked' ORDER BY run.lo) AS parks
    FROM run WHERE run.fate <> 'taken' AND run.lo = run.head
), kept AS (
    -- Otherwise it is kept for the tasks up to the first of another fate, parked or not. It is
    -- found by lo, not by its place: it may have a version that is younger than the snapshot.
    UPDATE stint.ready
    SET position = ready.position | CASE WHEN firsts.parks[width_bucket(ready.lo, firsts.lo)]
                                         THEN '-9223372036854775808'::bigint ELSE 0 END,
        hi = firsts.hi[width_bucket(ready.lo, firsts.lo)],
        limit_key = CASE WHEN firsts.parks[width_bucket(ready.lo, firsts.lo)]
                         THEN (SELECT tasks.limit_key FROM stint.tasks WHERE tasks.key = ready.lo)
                         ELSE ready.limit_key END
    FROM firsts WHERE ready.lo = ANY (firsts.lo)
), rest AS (
    -- The other tasks that are not taken, and what is left of the span.
    INSERT INTO stint.ready
        (position, lo, hi, action, priority, tries, completed, aborted, ready_at, limit_key)
    SELECT rest.position | CASE WHEN rest.parks THEN '-9223372036854775808'::bigint ELSE 0 END,
           rest.lo, rest.hi, rest.action, rest.priority, rest.tries, rest.completed, rest.aborted,
           rest.ready_at, rest.key
    FROM (
        SELECT run.position, run.lo, run.hi, run.action, run.priority, run.tries, run.completed,
               run.aborted, run.ready_at, run.fate = 'parked' AS parks,
               CASE WHEN run.fate = 'parked' THEN run.limit_key ELSE run.known END AS key
        FROM run WHERE run.fate <> 'taken' AND run.lo > run.head
        UNION ALL
        SELECT run.position, half.lo, half.hi, run.action, run.priority, run.tries, run.completed,
               run.aborted, run.ready_at, run.is_full, run.known
        FROM run CROSS JOIN LATERAL (
            VALUES (run.last + 1, run.middle), (run.middle + 1, run.span_hi)) AS half (lo, hi)
        WHERE run.hi = run.last AND half.lo <= half.hi
    ) AS rest
), paid AS (
    -- Tokens are paid out of what has come in by now, as in own_gated.
    UPDATE stint.limits
    SET refilled_at = statement_timestamp(), tokens = paying.tokens - coalesce(paying.tasks, 0)
    FROM (
        SELECT asked.action, asked.tokens, (
                   SELECT sum(run.hi - run.lo + 1) FROM run
                   WHERE run.action = asked.action AND run.fate = 'taken') AS tasks
        FROM asked WHERE asked.tokens IS NOT NULL) AS paying
    WHERE limits.action = paying.action
      AND (paying.tasks > 0 OR limits.refilled_at > statement_timestamp())
), leased AS (
    -- limited_action counts the tasks towards the limits of their action, and says that somebody
    -- may be waiting for their return.
    INSERT INTO stint.leased (lo, hi, claim, tries, completed, aborted, status, ready_at,
                              limited_action)
    SELECT run.lo, run.hi, $1::bigint, run.tries + 1, run.completed, run.aborted, run.status,
           run.ready_at, CASE WHEN run.limited THEN run.action END
    FROM run WHERE run.fate = 'taken'
), lease AS (
    INSERT INTO stint.leases (claim, actor, session, deadline, size, spans)
    SELECT $1::bigint, $2::text, $6::bigint,
           coalesce(statement_timestamp() + $5::interval, 'infinity'),
           sum(run.hi - run.lo + 1), array_agg(ARRAY[run.lo, run.hi] ORDER BY run.rank, run.lo)
    FROM run WHERE run.fate = 'taken' HAVING count(*) > 0
)
SELECT run.lo, run.hi, run.rank, run.floor,
       (SELECT true FROM stint.edges WHERE edges.after BETWEEN run.lo AND run.hi
        LIMIT 1) IS NOT NULL AS signals,
       '' AS parked, run.action, NULL AS turns, NULL AS rates, NULL AS keyed, NULL AS locks,
       NULL AS has_capacity
FROM (
    -- Sorted in with what is taken, as in own_tasks.
    SELECT met.*, max(met.least) OVER (PARTITION BY met.action, met.priority) AS floor
    FROM (
        SELECT run.action, run.priority, run.lo, run.hi, run.rank, NULL::bigint AS least
        FROM run WHERE run.fate = 'taken'
        UNION ALL
        SELECT floor.action, floor.priority, NULL, NULL, NULL, floor.rank FROM floor
    ) AS met
) AS run
WHERE run.lo IS NOT NULL
UNION ALL
SELECT DISTINCT 0, 0, 0, NULL::bigint, NULL::boolean, coalesce(run.limit_key, run.known),
       run.action, 0, false, true, false,
       (SELECT true FROM passed
        WHERE passed.action = run.action
          AND passed.limit_key = coalesce(run.limit_key, run.known)) IS NULL
FROM run WHERE run.fate = 'parked' OR run.is_full AND run.last < run.span_hi
UNION ALL
SELECT 0, 0, 0, NULL, NULL, '', asked.action, asked.turns, asked.rates, asked.keyed, asked.locks,
       asked.capacity > 0
FROM asked WHERE asked.limited
