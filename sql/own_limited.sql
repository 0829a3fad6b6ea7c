-- name: own_limited
--
-- Does what own_tasks does, for actions of which some have limits, behind lock_limits.
--
--   $1 claim      bigint
--   $2 actor      text
--   $3 max_tasks  integer
--   $4 actions    text[]
--   $5 lease      interval, null: for ever
--   $6 session    bigint, or null
--   $7 from_rank  bigint[]
--   $8 to_rank    bigint[]
--   $9 chosen     boolean: to hand out nothing under a claim that is known already
--   $10 dealt     boolean: deal_turns came before; otherwise nothing is handed out of fair actions
--
-- Of an action with limits no more is taken than there is room for: the concurrency less what is
-- owned, and the tokens of its rate. If its keys have limits, too, each task that is about to be
-- taken gets a slot of its key. Those for which there is none are parked: their rows of ready get a
-- negative position, where no hand-out meets them, until make_room brings them back.
-- So a task beyond the limit of its key is met once, not by each hand-out.
--
-- An example: of the span [1..6] with the keys a b a c a a, a limit per key of 1 and nothing owned,
-- a caller that wants 5 gets 1, 2 and 4; 3 and 5 are parked, each with its key, and 6 goes back.
--
-- Answers with the spans that are handed out, whose tasks claimed_tasks reads behind the commit:
-- whoever waits for the lock of lock_limits does not wait for them. floor is the least rank of the
-- priority that was seen, signals says that other tasks wait for one of the span. Further rows,
-- where signals is null, name the keys of which tasks were parked and, without a key, the actions
-- that have limits, and which.
WITH asked AS MATERIALIZED (
    -- Each action once, with what its limits allow. keyed says that keys have limits.
    SELECT queue.*, limits.action IS NOT NULL AS limited,
           coalesce(limits.keyed, false) AS keyed, limits.tokens, limits.per_key,
           least(limits.per_key, limits.key_burst) AS bound,
           coalesce(limits.pauses, false) AS pauses, limits.fair,
           limits.key_tasks IS NOT NULL AS rates, coalesce(limits.locks, false) AS locks,
           greatest(0, least(
               $3::integer,
               limits.concurrency - CASE WHEN limits.concurrency IS NOT NULL THEN (
                   SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
                   FROM stint.leased
                   WHERE leased.limited_action = queue.action
               ) END,
               floor(limits.tokens),
               CASE WHEN limits.paused OR limits.fair AND NOT $10::boolean THEN 0 END
           ))::integer AS room
    FROM (
        SELECT queue.action, array_agg(queue.from_rank ORDER BY queue.from_rank) AS from_ranks,
               array_agg(queue.to_rank ORDER BY queue.from_rank) AS to_ranks
        FROM unnest($4::text[], $7::bigint[], $8::bigint[]) AS queue (action, from_rank, to_rank)
        WHERE NOT $9::boolean
           OR (SELECT true FROM stint.leases WHERE leases.claim = $1::bigint LIMIT 1) IS NULL
        GROUP BY queue.action
    ) AS queue
    LEFT JOIN LATERAL (
        SELECT limits.action, limits.concurrency, limits.per_key, limits.fair, limits.key_tasks,
               limits.key_burst,
               limits.paused_at IS NOT NULL AS paused,
               limits.concurrency IS NOT NULL OR limits.rate_tasks IS NOT NULL OR limits.fair
                   AS locks,
               paused.keys IS NOT NULL AS pauses,
               limits.per_key IS NOT NULL OR limits.key_tasks IS NOT NULL
                   OR paused.keys IS NOT NULL AS keyed,
               least(
                   limits.rate_burst,
                   limits.tokens + limits.rate_tasks / date_part('epoch', limits.rate_per)
                       * date_part('epoch', greatest(
                             statement_timestamp() - limits.refilled_at, interval '0'
                         ))
               ) AS tokens
        FROM stint.limits
        CROSS JOIN LATERAL (
            SELECT (SELECT true
                    FROM stint.limited_keys
                    WHERE limited_keys.action = limits.action
                      AND limited_keys.paused_at IS NOT NULL
                    LIMIT 1) AS keys
        ) AS paused
        WHERE limits.action = queue.action
        OFFSET 0
    ) AS limits ON true
), head AS MATERIALIZED (
    -- The head of each queue is looked at without locking, to share $3 out among the queues by
    -- priority and age. Spans that are known to be of one key count as many tasks, together, as the
    -- key may have; those behind count none, and are only met to be parked.
    SELECT span.*, least(
               span.tasks,
               CASE WHEN span.limit_key <> '' AND span.bound IS NOT NULL
                    THEN greatest(0, span.bound + span.tasks - sum(span.tasks) OVER of_key)
               END
           ) AS size
    FROM (
        SELECT asked.action, asked.room, asked.limited, asked.keyed, asked.per_key, asked.bound,
               range.from_rank, range.to_rank, span.*, span.hi - span.lo + 1 AS tasks
        FROM asked
        CROSS JOIN LATERAL unnest(asked.from_ranks, asked.to_ranks) AS range (from_rank, to_rank)
        CROSS JOIN LATERAL (
            SELECT ready.priority, ready.rank, ready.lo, ready.hi, ready.limit_key
            FROM stint.ready
            WHERE ready.action = asked.action
              AND ready.rank BETWEEN range.from_rank AND range.to_rank
              AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
            ORDER BY ready.action, ready.rank, ready.hi
            LIMIT greatest(16, least($3::integer,
                                     2 * $3::integer / cardinality($4::text[]) + 1))
        ) AS span
        WHERE asked.room > 0
    ) AS span
    WINDOW of_key AS (PARTITION BY span.action, span.limit_key ORDER BY span.rank, span.hi)
), floor AS MATERIALIZED (
    SELECT head.action, head.priority, min(head.rank) AS rank
    FROM head
    GROUP BY head.action, head.priority
), share AS (
    -- How many spans of each queue are among the first that hold $3 tasks.
    SELECT counted.action, counted.room, counted.limited, counted.keyed, counted.per_key,
           counted.bound, counted.from_rank, counted.to_rank, count(*) AS spans
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before
        FROM (
            SELECT head.*, greatest(0, least(
                       head.size, head.room + head.size - sum(head.size) OVER of_action
                   )) AS fits
            FROM head
            WINDOW of_action AS (PARTITION BY head.action ORDER BY head.rank, head.hi)
        ) AS fitting
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.fits > 0 AND counted.before < $3::integer
       OR counted.size = 0 AND counted.before <= $3::integer
    GROUP BY counted.action, counted.room, counted.limited, counted.keyed, counted.per_key,
             counted.bound, counted.from_rank, counted.to_rank
    ORDER BY min(counted.rank)
), picked AS MATERIALIZED (
    SELECT share.room, share.limited, share.keyed, share.per_key, share.bound, span.*,
           span.hi - span.lo + 1 AS tasks
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
), offered AS MATERIALIZED (
    -- Of each span the tasks up to last may be taken.
    SELECT counted.*,
           counted.lo + least(counted.fits, $3::integer - counted.before)::bigint - 1 AS last
    FROM (
        SELECT fitting.*, sum(fitting.fits) OVER first_to_last - fitting.fits AS before
        FROM (
            SELECT sized.*, greatest(0, least(
                       sized.size, sized.room + sized.size - sum(sized.size) OVER of_action
                   )) AS fits
            FROM (
                SELECT picked.*, least(
                           picked.tasks,
                           CASE WHEN picked.limit_key <> '' AND picked.bound IS NOT NULL
                                THEN greatest(0, picked.bound + picked.tasks
                                                     - sum(picked.tasks) OVER of_key)
                           END
                       ) AS size
                FROM picked
                WINDOW of_key AS (PARTITION BY picked.action, picked.limit_key
                                  ORDER BY picked.rank, picked.hi)
            ) AS sized
            WINDOW of_action AS (PARTITION BY sized.action ORDER BY sized.rank, sized.hi)
        ) AS fitting
        WINDOW first_to_last AS (ORDER BY fitting.rank, fitting.hi)
    ) AS counted
    WHERE counted.fits > 0 AND counted.before < $3::integer
       OR counted.size = 0 AND counted.before <= $3::integer
), task AS MATERIALIZED (
    -- The tasks of actions whose keys have limits, with their keys; empty, if a task has none.
    SELECT offered.lo AS span, offered.action, offered.rank, offered.per_key, task.key,
           task.limit_key
    FROM offered
    CROSS JOIN LATERAL (
        SELECT tasks.key, coalesce(tasks.limit_key, '') AS limit_key
        FROM stint.tasks
        WHERE offered.limit_key IS NULL AND tasks.key BETWEEN offered.lo AND offered.last
        UNION ALL
        SELECT known.key, offered.limit_key
        FROM generate_series(offered.lo, offered.last) AS known (key)
        WHERE offered.limit_key IS NOT NULL
    ) AS task
    WHERE offered.keyed
), key AS MATERIALIZED (
    -- The keys, with the slots that are held, whether any slots have rows, and for how many of the
    -- tasks there is room, and tokens.
    SELECT named.*, held.slots, held.known, bucket.full_at, bucket.each,
           CASE WHEN paused.key IS NULL
                THEN greatest(0, least(cardinality(named.keys),
                                       named.per_key - cardinality(held.slots),
                                       bucket.tokens))
                ELSE 0
           END::integer AS room
    FROM (
        SELECT task.action, task.limit_key, task.per_key, array_agg(task.key) AS keys
        FROM (
            SELECT task.*
            FROM task
            WHERE task.limit_key <> ''
            ORDER BY task.action, task.limit_key, task.per_key, task.rank, task.key
        ) AS task
        GROUP BY task.action, task.limit_key, task.per_key
    ) AS named
    LEFT JOIN LATERAL (
        SELECT limited_keys.limit_key AS key
        FROM stint.limited_keys
        WHERE limited_keys.action = named.action AND limited_keys.limit_key = named.limit_key
          AND limited_keys.paused_at IS NOT NULL
          AND (SELECT true FROM asked WHERE asked.pauses LIMIT 1)
        OFFSET 0
    ) AS paused ON true
    LEFT JOIN LATERAL (
        -- each is how many seconds a token takes.
        SELECT rate.each, rates.full_at,
               floor(limits.key_burst - greatest(
                   date_part('epoch', rates.full_at - statement_timestamp()), 0
               ) / rate.each + 0.000001) AS tokens
        FROM stint.limits
        CROSS JOIN LATERAL (
            SELECT date_part('epoch', limits.key_per) / limits.key_tasks AS each
        ) AS rate
        LEFT JOIN LATERAL (
            SELECT key_rates.full_at
            FROM stint.key_rates
            WHERE key_rates.action = named.action AND key_rates.limit_key = named.limit_key
            OFFSET 0
        ) AS rates ON true
        WHERE limits.action = named.action AND limits.key_tasks IS NOT NULL
          AND (SELECT true FROM asked WHERE asked.rates LIMIT 1)
        OFFSET 0
    ) AS bucket ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(slot.slot) FILTER (WHERE slot.held), '{}') AS slots,
               count(*) > 0 AS known
        FROM (
            SELECT slots.slot, (
                       SELECT leased.hi >= slots.key AND leased.claim = slots.claim
                       FROM stint.leased
                       WHERE leased.lo BETWEEN slots.key >> 10 << 10 AND slots.key
                       ORDER BY leased.lo DESC
                       LIMIT 1
                   ) AS held
            FROM stint.slots
            WHERE slots.action = named.action AND slots.limit_key = named.limit_key
              AND named.per_key IS NOT NULL
            OFFSET 0
        ) AS slot
    ) AS held
), paid_key AS (
    -- Tokens are paid out of the bucket that was seen, or not at all.
    INSERT INTO stint.key_rates AS key_rates (action, limit_key, full_at, seen_at)
    SELECT key.action, key.limit_key,
           greatest(key.full_at, statement_timestamp())
               + ceil(key.room * key.each * 1000000) * interval '1 us',
           key.full_at
    FROM key
    WHERE key.each IS NOT NULL AND key.room > 0
    ORDER BY key.action, key.limit_key
    ON CONFLICT (action, limit_key) DO UPDATE
    SET full_at = excluded.full_at, seen_at = excluded.seen_at
    WHERE key_rates.full_at = excluded.seen_at
    RETURNING key_rates.action, key_rates.limit_key
), unpaid AS MATERIALIZED (
    -- The tasks of the keys of which somebody else has just paid.
    SELECT coalesce(array_agg(task.key), '{}') AS keys
    FROM (
        SELECT key.action, key.limit_key FROM key WHERE key.each IS NOT NULL AND key.room > 0
        EXCEPT
        SELECT paid_key.action, paid_key.limit_key FROM paid_key
    ) AS lost
    JOIN key ON key.action = lost.action AND key.limit_key = lost.limit_key
    CROSS JOIN LATERAL unnest(key.keys) AS task (key)
), won AS (
    -- The lowest free slots, so that two hand-outs that see the same room want the same slots, and
    -- only one gets them: a slot without a row, or one that still has the claim that is known to
    -- hold it no more. They are taken in the order of the primary key, so that nobody deadlocks.
    INSERT INTO stint.slots AS slots (action, limit_key, slot, key, claim, claim_before)
    SELECT wanted.action, wanted.limit_key, wanted.slot, wanted.key, $1::bigint,
           CASE WHEN wanted.known THEN (
               SELECT before.claim
               FROM stint.slots AS before
               WHERE before.action = wanted.action AND before.limit_key = wanted.limit_key
                 AND before.slot = wanted.slot
           ) END
    FROM (
        SELECT key.action, key.limit_key, key.known, (free.n - 1)::integer AS slot, free.key
        FROM key
        CROSS JOIN LATERAL unnest(key.keys[1:key.room]) WITH ORDINALITY AS free (key, n)
        WHERE key.per_key IS NOT NULL AND key.slots = '{}'
        UNION ALL
        SELECT key.action, key.limit_key, key.known, free.slot, key.keys[free.n]
        FROM key
        CROSS JOIN LATERAL (
            SELECT free.slot, row_number() OVER (ORDER BY free.slot) AS n
            FROM generate_series(0, cardinality(key.slots) + key.room - 1) AS free (slot)
            WHERE free.slot <> ALL (key.slots)
            ORDER BY free.slot
            LIMIT key.room
        ) AS free
        WHERE key.per_key IS NOT NULL AND key.slots <> '{}' AND key.room > 0
    ) AS wanted
    WHERE (SELECT count(*) FROM paid_key) >= 0 -- all buckets are locked ahead of the first slot
    ORDER BY wanted.action, wanted.limit_key, wanted.slot
    ON CONFLICT (action, limit_key, slot) DO UPDATE
    SET key = excluded.key, claim = excluded.claim, claim_before = excluded.claim_before
    WHERE slots.claim = excluded.claim_before
    RETURNING slots.key
), taken AS MATERIALIZED (
    SELECT one.key
    FROM (
        SELECT won.key FROM won
        UNION ALL
        SELECT task.key FROM task WHERE task.limit_key = ''
        UNION ALL
        SELECT unnest(key.keys[1:key.room]) FROM key WHERE key.per_key IS NULL
    ) AS one
    WHERE one.key <> ALL ((SELECT unpaid.keys FROM unpaid)::bigint[])
), all_taken AS MATERIALIZED (
    SELECT (SELECT count(*) FROM taken) = (SELECT count(*) FROM task) AS yes
), judged AS MATERIALIZED (
    -- Unless all tasks are taken: sorted by key, one that is taken is followed by its key among
    -- those that are. A join would look at each of the ones for each of the others.
    SELECT judged.*
    FROM (
        SELECT one.span, one.key, one.limit_key,
               lead(one.key, 1, 0::bigint) OVER by_key = one.key AS is_taken
        FROM (
            SELECT task.span, task.key, task.limit_key
            FROM task
            WHERE NOT (SELECT all_taken.yes FROM all_taken)
            UNION ALL
            SELECT NULL, taken.key, NULL
            FROM taken
            WHERE NOT (SELECT all_taken.yes FROM all_taken)
        ) AS one
        WINDOW by_key AS (ORDER BY one.key, one.span)
    ) AS judged
    WHERE judged.span IS NOT NULL
), part AS MATERIALIZED (
    -- The tasks of a span that follow one another and are taken, or are to be parked with the same
    -- key; or all.
    SELECT part.span, part.is_taken, min(part.limit_key) AS limit_key, min(part.key) AS lo,
           max(part.key) AS hi
    FROM (
        SELECT judged.*, judged.key - row_number() OVER (
                   PARTITION BY judged.span, judged.is_taken,
                                CASE WHEN NOT judged.is_taken THEN judged.limit_key END
                   ORDER BY judged.key
               ) AS place
        FROM judged
    ) AS part
    GROUP BY part.span, part.is_taken, CASE WHEN NOT part.is_taken THEN part.limit_key END,
             part.place
    UNION ALL
    SELECT offered.lo, true, NULL, offered.lo, offered.last
    FROM offered
    WHERE offered.size > 0 AND (NOT offered.keyed OR (SELECT all_taken.yes FROM all_taken))
    UNION ALL
    SELECT offered.lo, false, offered.limit_key, offered.lo, offered.hi
    FROM offered
    WHERE offered.size = 0
), run AS MATERIALIZED (
    -- Each part with what is to be known of its span, which is sorted ahead of its parts. With a
    -- key that is known to be that of the whole span, its rest is parked, too. full says that as
    -- many tasks as the key of the span may have come before the rest of the span.
    SELECT run.span, run.is_taken, run.lo, run.limit_key, run.span_hi, run.last, run.known,
           CASE WHEN NOT run.is_taken AND run.hi = run.last AND run.known IS NOT NULL
                THEN run.span_hi ELSE run.hi
           END AS hi,
           run.known <> '' AND run.last - run.span + 1 >= run.bound AS full,
           run.position, run.rank, run.action, run.limited, run.priority, run.tries, run.completed,
           run.aborted, run.status
    FROM (
        SELECT lined.span, lined.is_taken, lined.lo, lined.hi, lined.limit_key,
               first_value(lined.span_hi) OVER of_span AS span_hi,
               first_value(lined.last) OVER of_span AS last,
               first_value(lined.limit_key) OVER of_span AS known,
               first_value(lined.bound) OVER of_span AS bound,
               first_value(lined.position) OVER of_span AS position,
               first_value(lined.rank) OVER of_span AS rank,
               first_value(lined.action) OVER of_span AS action,
               first_value(lined.limited) OVER of_span AS limited,
               first_value(lined.priority) OVER of_span AS priority,
               first_value(lined.tries) OVER of_span AS tries,
               first_value(lined.completed) OVER of_span AS completed,
               first_value(lined.aborted) OVER of_span AS aborted,
               first_value(lined.status) OVER of_span AS status
        FROM (
            SELECT offered.lo AS span, 0 AS lo, NULL::bigint AS hi, NULL::boolean AS is_taken,
                   offered.limit_key, offered.hi AS span_hi, offered.last, offered.bound,
                   offered.position, offered.rank, offered.action, offered.limited,
                   offered.priority, offered.tries, offered.completed, offered.aborted,
                   offered.status
            FROM offered
            UNION ALL
            SELECT part.span, part.lo, part.hi, part.is_taken, part.limit_key, NULL, NULL, NULL,
                   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
            FROM part
        ) AS lined
        WINDOW of_span AS (PARTITION BY lined.span ORDER BY lined.lo)
    ) AS run
    WHERE run.hi IS NOT NULL
), gone AS (
    -- The row of a span goes if its first task is taken.
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(
        SELECT run.lo FROM run WHERE run.is_taken AND run.lo = run.span
    ))
), first AS MATERIALIZED (
    SELECT run.lo, run.hi FROM run WHERE NOT run.is_taken AND run.lo = run.span
), parked AS (
    -- Otherwise it is parked with the tasks up to the first that is not. It is found by lo, not by
    -- its place: it may have a version that is younger than the snapshot.
    UPDATE stint.ready
    SET position = '-9223372036854775808'::bigint | ready.position,
        hi = (ARRAY(SELECT first.hi FROM first ORDER BY first.lo))[
            width_bucket(ready.lo, ARRAY(SELECT first.lo FROM first ORDER BY first.lo))],
        limit_key = (SELECT tasks.limit_key FROM stint.tasks WHERE tasks.key = ready.lo)
    WHERE ready.lo = ANY (ARRAY(SELECT first.lo FROM first))
), rest AS (
    -- The other tasks to park, and what is left of the last span, which goes back in two halves, as
    -- in own_tasks.
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             limit_key)
    SELECT CASE WHEN rest.parks THEN '-9223372036854775808'::bigint | rest.position
                ELSE rest.position
           END,
           rest.lo, rest.hi, rest.action, rest.priority, rest.tries, rest.completed, rest.aborted,
           rest.key
    FROM (
        SELECT run.position, run.lo, run.hi, run.action, run.priority, run.tries, run.completed,
               run.aborted, run.limit_key AS key, true AS parks
        FROM run
        WHERE NOT run.is_taken AND run.lo > run.span
        UNION ALL
        SELECT run.position, half.lo, half.hi, run.action, run.priority, run.tries, run.completed,
               run.aborted, run.known, coalesce(run.full, false)
        FROM run
        CROSS JOIN LATERAL (
            VALUES (run.last + 1,
                    CASE WHEN run.full THEN run.span_hi
                         ELSE (run.last + run.span_hi + 1) / 2
                    END),
                   (CASE WHEN run.full THEN run.span_hi ELSE (run.last + run.span_hi + 1) / 2 END
                        + 1,
                    run.span_hi)
        ) AS half (lo, hi)
        WHERE run.hi = run.last AND half.lo <= half.hi
    ) AS rest
), paid AS (
    -- Tokens are paid out of what has come in by now.
    UPDATE stint.limits
    SET refilled_at = greatest(limits.refilled_at, statement_timestamp()),
        tokens = paying.tokens - paying.tasks
    FROM (
        SELECT paid.tasks, asked.tokens, limits.tid
        FROM (
            SELECT run.action, sum(run.hi - run.lo + 1) AS tasks
            FROM run
            WHERE run.is_taken AND run.limited
            GROUP BY run.action
        ) AS paid
        JOIN asked ON asked.action = paid.action AND asked.tokens IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT limits.ctid AS tid FROM stint.limits WHERE limits.action = paid.action OFFSET 0
        ) AS limits
    ) AS paying
    WHERE limits.ctid = paying.tid
), leased AS (
    -- limited_action counts the tasks towards the limits of their action, and says that somebody
    -- may be waiting for their return.
    INSERT INTO stint.leased (lo, hi, claim, tries, completed, aborted, status, limited_action)
    SELECT run.lo, run.hi, $1::bigint, run.tries + 1, run.completed, run.aborted, run.status,
           CASE WHEN run.limited THEN run.action END
    FROM run
    WHERE run.is_taken
), lease AS (
    INSERT INTO stint.leases (claim, actor, session, deadline, size, spans)
    SELECT $1::bigint, $2::text, $6::bigint,
           coalesce(statement_timestamp() + $5::interval, 'infinity'),
           sum(run.hi - run.lo + 1), array_agg(ARRAY[run.lo, run.hi] ORDER BY run.rank, run.lo)
    FROM run
    WHERE run.is_taken
    HAVING count(*) > 0
)
SELECT run.lo, run.hi, run.rank,
       (SELECT floor.rank
        FROM floor
        WHERE floor.action = run.action AND floor.priority = run.priority) AS floor,
       (SELECT true
        FROM stint.edges
        WHERE edges.after BETWEEN run.lo AND run.hi
        LIMIT 1) IS NOT NULL AS signals,
       '' AS parked, run.action, NULL AS fair, NULL AS rates, NULL AS keyed, NULL AS locks
FROM run
WHERE run.is_taken
UNION ALL
SELECT 0, 0, 0, NULL, NULL, other.parked, other.action, other.fair, other.rates, other.keyed,
       other.locks
FROM (
    SELECT DISTINCT coalesce(run.limit_key, run.known) AS parked, run.action, false AS fair,
           false AS rates, true AS keyed, false AS locks
    FROM run
    WHERE NOT run.is_taken OR run.full AND run.last < run.span_hi
    UNION ALL
    SELECT '', asked.action, asked.fair, asked.rates, asked.keyed, asked.locks
    FROM asked
    WHERE asked.limited
) AS other
