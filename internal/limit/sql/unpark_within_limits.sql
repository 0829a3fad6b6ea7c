-- name: unpark_within_limits
--
-- Unparks tasks: as many of a key as the tasks leave capacity for that the caller's next statement
-- takes from their owners, or out of the queue, and as many as there is capacity for of the keys
-- given. Returns the actions of whose limits there may be capacity, without a key.
--
--   $1 lo         bigint[]
--   $2 hi         bigint[]: of tasks; what shares its row with others must have been split off
--   $3 claims     bigint[]: of owned tasks; null: whoever owns them, and ready tasks
--   $4 actions    text[]
--   $5 keys       text[]: element i is a key of action i
--   $6 waking     text[]: actions of whose keys those are meant, too, for which tokens have come
--   $7 briefly    boolean: the transaction is over soon
--   $8 outcomes   smallint[], null: the tasks end. As in return_tasks
--
-- turn locks turns, and then waking locks buckets, each in the order of its keys, as all who lock
-- them do, so that nobody deadlocks. Fetches wait for these locks. So if the transaction may
-- last, neither is done, and the keys are returned that should be looked at again when it is over.
--
-- They come back to the very beginning of the queue, where each fetch looks. The slots decide
-- whether they are fetched; what was brought back in vain is parked again. Keys of fair actions
-- get their turns back instead. Of a key in strict order comes back the task that holds it, or the
-- first one if none does or that ends: to where it was, since the order among those that are parked
-- and those that are not must stay, and only if nobody is changing it.
--
-- Who parks a task does this for its key behind the commit, since somebody may have freed capacity
-- before. One who frees capacity at that moment neither sees the parked task nor is seen, so it is
-- done once more when the transactions that were open have ended.
WITH owned AS MATERIALIZED (
    SELECT leased.lo, leased.hi, leased.limited_action AS action
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (lo, hi, claim)
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.limited_action
        FROM stint.leased
        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
          AND (leased.claim = named.claim OR named.claim IS NULL)
        OFFSET 0
    ) AS leased
    WHERE leased.limited_action IS NOT NULL
    UNION ALL
    -- A ready task that goes leaves its place to the next one of its key.
    SELECT ready.lo, ready.hi, ready.action
    FROM unnest($1::bigint[], $2::bigint[]) AS named (lo, hi)
    CROSS JOIN LATERAL (
        -- hi + 0: a planner that believes the table to be empty goes along all of ready_order.
        SELECT ready.lo, ready.hi, ready.action
        FROM stint.ready
        WHERE ready.lo = named.lo AND ready.hi + 0 = named.hi AND ready.position >= 0
        OFFSET 0
    ) AS ready
    WHERE $3::bigint[] IS NULL
      AND (SELECT true FROM stint.limits WHERE limits.action = ready.action) IS NOT NULL
    UNION ALL
    -- So does one that holds a key, and waits for its next try.
    SELECT holder.key, holder.key, task.action
    FROM unnest($1::bigint[], $2::bigint[]) AS named (lo, hi)
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.limit_key
        FROM stint.tasks
        WHERE tasks.key BETWEEN named.lo AND named.hi AND tasks.limit_key IS NOT NULL
          AND $3::bigint[] IS NULL
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT holders.key
        FROM stint.holders
        WHERE holders.action = task.action AND holders.limit_key = task.limit_key
        OFFSET 0
    ) AS holder
    WHERE holder.key BETWEEN named.lo AND named.hi
), parking AS MATERIALIZED (
    -- The actions of which tasks are parked at all.
    SELECT array_agg(limited.action) AS actions
    FROM (SELECT DISTINCT owned.action FROM owned) AS limited
    WHERE (SELECT true
           FROM stint.ready
           WHERE ready.action = limited.action AND ready.position < 0
           ORDER BY ready.action, ready.limit_key
           LIMIT 1) IS NOT NULL
), due AS MATERIALIZED (
    SELECT rates.action, rates.limit_key, rates.wake_at
    FROM (SELECT DISTINCT named.action FROM unnest($6::text[]) AS named (action)) AS named
    CROSS JOIN LATERAL (
        (
            SELECT key_rates.action, key_rates.limit_key, key_rates.wake_at
            FROM stint.key_rates
            WHERE key_rates.action = named.action AND key_rates.wake_at <= statement_timestamp()
            ORDER BY key_rates.action, key_rates.wake_at
            LIMIT 1000
        )
        UNION ALL
        -- No key waits for longer than an empty bucket takes, unless the clock was ahead, or
        -- the bucket owes tokens, where costs count.
        (
            SELECT key_rates.action, key_rates.limit_key, key_rates.wake_at
            FROM stint.key_rates
            WHERE key_rates.action = named.action AND key_rates.wake_at > (
                SELECT CASE WHEN limits.by_cost THEN 'infinity' ELSE
                           statement_timestamp() + interval '1 s' + limits.key_burst
                               * (date_part('epoch', limits.key_per) / limits.key_tasks)
                               * interval '1 s'
                       END
                FROM stint.limits
                WHERE limits.action = named.action)
            ORDER BY key_rates.action, key_rates.wake_at
            LIMIT 1000
        )
    ) AS rates
), named AS MATERIALIZED (
    SELECT named.action, named.limit_key
    FROM unnest($4::text[], $5::text[]) AS named (action, limit_key)
    UNION
    SELECT due.action, due.limit_key FROM due
), below AS MATERIALIZED (
    -- How much capacity there is for each key below its limit.
    SELECT named.action, named.limit_key, coalesce(limits.per_key - held.slots, 1000) AS capacity,
           limits.ordered
    FROM named
    LEFT JOIN LATERAL (
        SELECT limits.per_key, limits.ordered
        FROM stint.limits
        WHERE limits.action = named.action
        OFFSET 0
    ) AS limits ON true
    CROSS JOIN LATERAL (
        -- include slots_held: action=named.action; key=named.limit_key; per_key=limits.per_key
    ) AS held
), made AS MATERIALIZED (
    SELECT made.action, made.limit_key, sum(made.capacity) AS capacity,
           CASE WHEN bool_or(made.named) THEN sum(made.back) ELSE 0 END AS back
    FROM (
        SELECT owned.action, task.limit_key, 1 AS capacity, 0 AS back, false AS named
        FROM owned
        CROSS JOIN LATERAL (
            SELECT tasks.limit_key
            FROM stint.tasks
            WHERE tasks.key BETWEEN owned.lo AND owned.hi AND tasks.limit_key IS NOT NULL
            OFFSET 0
        ) AS task
        WHERE owned.action = ANY ((SELECT parking.actions FROM parking)::text[])
        UNION ALL
        SELECT below.action, below.limit_key, below.capacity, 0, true
        FROM below
        WHERE below.capacity > 0
        UNION ALL
        -- What was brought back before, and has not been fetched, is at the very beginning of
        -- the queue. A key that is named needs so many fewer.
        SELECT head.action, head.limit_key, 0, head.hi - head.lo + 1, false
        FROM (
            SELECT DISTINCT below.action, below.ordered FROM below WHERE below.capacity > 0
        ) AS named
        CROSS JOIN LATERAL (
            SELECT ready.action, ready.limit_key, ready.position, ready.lo, ready.hi
            FROM stint.ready
            WHERE ready.action = named.action AND ready.rank >= 0
            ORDER BY ready.action, ready.rank, ready.hi
            LIMIT 1000
        ) AS head
        WHERE head.position = 0 OR named.ordered AND head.limit_key <> ''
    ) AS made
    GROUP BY made.action, made.limit_key
    HAVING sum(made.capacity) > 0
), key AS MATERIALIZED (
    -- The keys of which tasks are parked, unless they are paused, with their tokens; each is how
    -- many seconds a token takes.
    SELECT made.action, made.limit_key, limits.fair, limits.fair_group, limits.key_burst,
           bucket.each, bucket.tokens,
           greatest(0, least(made.capacity, floor(bucket.tokens),
                             CASE WHEN limits.ordered OR limits.by_cost THEN 1 END))::bigint
               AS capacity,
           CASE WHEN next.holds THEN 0 ELSE made.back END::bigint AS back, next.lo AS next
    FROM made
    LEFT JOIN LATERAL (
        SELECT limits.fair, limits.fair_group, limits.ordered, limits.by_cost, limits.key_burst,
               date_part('epoch', limits.key_per) / limits.key_tasks AS each
        FROM stint.limits
        WHERE limits.action = made.action
        OFFSET 0
    ) AS limits ON true
    LEFT JOIN LATERAL (
        -- Unless costs count, the bucket is empty at worst: what is full later is of a clock that
        -- was ahead.
        SELECT limits.each, greatest(limits.key_burst - greatest(date_part(
                   'epoch', (
                       SELECT key_rates.full_at
                       FROM stint.key_rates
                       WHERE key_rates.action = made.action
                         AND key_rates.limit_key = made.limit_key
                   ) - statement_timestamp()
               ), 0) / limits.each, CASE WHEN NOT limits.by_cost THEN 0 END) + 0.000001 AS tokens
        WHERE limits.each IS NOT NULL
        OFFSET 0
    ) AS bucket ON true
    LEFT JOIN LATERAL (
        -- Which task of a key in strict order may come back: null if one holds it that goes on, and
        -- is not parked.
        SELECT CASE WHEN held.goes_on THEN held.parked ELSE (
                   SELECT ready.lo
                   FROM stint.ready
                   WHERE ready.action = made.action AND ready.limit_key = made.limit_key
                     AND ready.position < 0
                     AND coalesce(($2::bigint[])[width_bucket(ready.lo, $1::bigint[])], -1)
                         < ready.lo
                   ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
                   LIMIT 1
               ) END AS lo, held.goes_on AS holds
        FROM (
            -- position + 0: a planner that believes the table to be empty goes along ready_parked.
            SELECT count(*) > 0 AS goes_on,
                   min((SELECT ready.lo
                        FROM stint.ready
                        WHERE ready.lo = holder.key AND ready.position + 0 < 0)) AS parked
            FROM (
                SELECT holders.key, holders.max_tries,
                       width_bucket(holders.key, $1::bigint[]) AS place
                FROM stint.holders
                WHERE holders.action = made.action AND holders.limit_key = made.limit_key
                OFFSET 0
            ) AS holder
            -- It ends if it is among the tasks that the caller takes, unless it has tries left.
            WHERE coalesce(($2::bigint[])[holder.place], -1) < holder.key
               OR ($8::smallint[])[holder.place] > 2
               OR ($8::smallint[])[holder.place] = 2
                  AND (holder.max_tries = 0 OR holder.max_tries > (
                      SELECT leased.tries FROM stint.leased WHERE leased.lo = holder.key))
        ) AS held
        WHERE limits.ordered
        OFFSET 0
    ) AS next ON true
    WHERE (limits.ordered IS NOT TRUE OR next.lo IS NOT NULL)
      AND (SELECT limited_keys.paused_at
           FROM stint.limited_keys
           WHERE limited_keys.action = made.action
             AND limited_keys.limit_key = made.limit_key) IS NULL
      AND (SELECT true
           FROM stint.ready
           WHERE ready.action = made.action AND ready.limit_key = made.limit_key
             AND ready.position < 0
           LIMIT 1)
), waking AS (
    -- When to look again: when a token has come, or those of 50 ms, of which a fetch of each
    -- alone would cost more. A key that is due and has no parked tasks is not looked at again,
    -- unless somebody has said so meanwhile. Each bucket is locked once: SKIP LOCKED waits, too,
    -- for the next version of a row that has just been updated.
    INSERT INTO stint.key_rates AS key_rates (action, limit_key, full_at, wake_at, seen_at)
    SELECT bucket.action, bucket.limit_key, statement_timestamp(), bucket.wake_at, bucket.seen_at
    FROM (
        SELECT key.action, key.limit_key, statement_timestamp() + greatest(
                   0, least(key.key_burst,
                            greatest(1, ceil(0.05 / key.each)))
                       - key.tokens + key.capacity
               ) * key.each * interval '1 s' AS wake_at, NULL::timestamptz AS seen_at
        FROM key
        WHERE key.each IS NOT NULL
        UNION ALL
        SELECT due.action, due.limit_key, NULL, due.wake_at
        FROM due
        WHERE NOT EXISTS (
            SELECT FROM key
            WHERE key.action = due.action AND key.limit_key = due.limit_key
        )
    ) AS bucket
    WHERE $7::boolean
    ORDER BY bucket.action, bucket.limit_key
    ON CONFLICT (action, limit_key) DO UPDATE
    SET wake_at = CASE WHEN excluded.wake_at IS NULL AND key_rates.wake_at <> excluded.seen_at
                       THEN key_rates.wake_at
                       ELSE excluded.wake_at
                  END,
        -- Empty at worst, as above: now, since somebody may have paid while this waited.
        full_at = least(key_rates.full_at, (
            SELECT clock_timestamp() + limits.key_burst
                       * (date_part('epoch', limits.key_per) / limits.key_tasks) * interval '1 s'
            FROM stint.limits
            WHERE limits.action = excluded.action AND NOT limits.by_cost))
), turn AS (
    -- Of a fair action it is the turn of the key that comes back, with those of its lower
    -- priorities, for which there may be capacity, too. It has saved up a turn meanwhile at most.
    INSERT INTO stint.turns AS turns (action, limit_key, tier, pass)
    SELECT key.action, key.limit_key, first.tier, coalesce(
               -- The least of the group, if the action is in one.
               (SELECT min(least.pass)
                FROM stint.limits
                CROSS JOIN LATERAL (
                    SELECT turns.pass
                    FROM stint.turns
                    WHERE turns.action = limits.action AND NOT turns.held
                      AND turns.tier = first.tier
                    ORDER BY turns.action, turns.held, turns.tier, turns.pass
                    LIMIT 1
                ) AS least
                WHERE key.fair_group <> '' AND limits.fair_group = key.fair_group
                  AND limits.fair_group <> ''),
               (SELECT turns.pass
                FROM stint.turns
                WHERE turns.action = key.action AND NOT turns.held AND turns.tier = first.tier
                ORDER BY turns.action, turns.held, turns.tier, turns.pass
                LIMIT 1),
               0)
    FROM key
    CROSS JOIN LATERAL (
        (
            SELECT 32767 - ready.priority AS tier
            FROM stint.ready
            WHERE ready.action = key.action AND ready.limit_key = key.limit_key
              AND ready.position < 0
            ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
            LIMIT 1
        )
        UNION
        SELECT turns.tier
        FROM stint.turns
        WHERE turns.action = key.action AND turns.limit_key = key.limit_key AND turns.held
    ) AS first
    WHERE key.fair AND key.capacity > key.back AND $7::boolean
    ORDER BY key.action, key.limit_key, first.tier
    ON CONFLICT (action, limit_key, tier) DO UPDATE
    SET pass = greatest(turns.pass, excluded.pass - 32000000), held = false
    WHERE turns.held
    RETURNING turns.action
), back AS MATERIALIZED (
    SELECT span.*, key.capacity - key.back AS capacity, span.hi - span.lo + 1 AS size,
           false AS ordered
    FROM key
    CROSS JOIN LATERAL (
        SELECT ready.position, ready.lo, ready.hi, ready.action, ready.priority,
               ready.tries, ready.completed, ready.aborted, ready.ready_at, ready.limit_key,
               ready.rank
        FROM stint.ready
        WHERE ready.action = key.action AND ready.limit_key = key.limit_key AND ready.position < 0
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT key.capacity - key.back
        FOR UPDATE SKIP LOCKED
    ) AS span
    WHERE key.fair IS NOT TRUE AND key.capacity > key.back AND key.next IS NULL
    UNION ALL
    SELECT span.*, 1, span.hi - span.lo + 1, true
    FROM key
    CROSS JOIN LATERAL (
        SELECT ready.position, ready.lo, ready.hi, ready.action, ready.priority,
               ready.tries, ready.completed, ready.aborted, ready.ready_at, ready.limit_key,
               ready.rank
        FROM stint.ready
        WHERE ready.lo = key.next AND ready.position + 0 < 0
        FOR UPDATE SKIP LOCKED
    ) AS span
    WHERE key.capacity > key.back
), part AS MATERIALIZED (
    -- Of each span the tasks up to last.
    SELECT counted.*, least(counted.hi, counted.lo + counted.capacity::bigint - counted.before - 1)
               AS last
    FROM (
        SELECT back.*, (sum(back.size) OVER of_key)::bigint - back.size AS before
        FROM back
        WINDOW of_key AS (PARTITION BY back.action, back.limit_key ORDER BY back.rank, back.hi)
    ) AS counted
    WHERE counted.before < counted.capacity
), moved AS (
    -- By lo, not by place: the row may have a version that is younger than the snapshot.
    UPDATE stint.ready
    SET position = CASE WHEN ready.lo = ANY (ARRAY(SELECT part.lo FROM part WHERE part.ordered))
                        THEN ready.position & 9223372036854775807 /* all but the sign */
                        ELSE 0
                   END,
        hi = (ARRAY(SELECT part.last FROM part ORDER BY part.lo))[
            width_bucket(ready.lo, ARRAY(SELECT part.lo FROM part ORDER BY part.lo))]
    WHERE ready.lo = ANY (ARRAY(SELECT part.lo FROM part))
), rest AS (
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             ready_at, limit_key)
    SELECT part.position, part.last + 1, part.hi, part.action, part.priority, part.tries,
           part.completed, part.aborted, part.ready_at, part.limit_key
    FROM part
    WHERE part.last < part.hi
)
SELECT DISTINCT limited.action, limited.limit_key
FROM (
    SELECT owned.action, '' AS limit_key FROM owned
    UNION ALL
    SELECT part.action, '' FROM part
    UNION ALL
    SELECT turn.action, '' FROM turn
    UNION ALL
    SELECT key.action, key.limit_key
    FROM key
    WHERE NOT $7::boolean AND (key.fair OR key.each IS NOT NULL)
) AS limited
