-- The function finish_task ends an owned task in the caller's transaction, by its token. It is for
-- programs in other languages than Go, and does what Store.WithTx(tx).ReturnTask does. Nothing in
-- Stint calls it: who wants it runs this file, as functions.sql says, which makes add_task.
-- docs/guides/sql.md shows calls, and says who may call the function.
--
-- The file is made of testdata/finish_task.sql and of the statements of the verbs:
-- go test -run FinishTask ./migrations -update

-- One at a time: two that replace a function at once would collide.
SELECT pg_catalog.pg_advisory_xact_lock(6153097412580361);

-- There is one function for all callers, as of add_task: a result is text or bytes by two
-- parameters.
CREATE OR REPLACE FUNCTION stint.finish_task(
    id           pg_catalog.text,
    token        pg_catalog.uuid,
    code         pg_catalog.text     DEFAULT 'completed',
    status       pg_catalog.text     DEFAULT NULL,
    result       pg_catalog.text     DEFAULT NULL,
    retry_after  pg_catalog.interval DEFAULT NULL,
    result_bytes pg_catalog.bytea    DEFAULT NULL,
    notify       boolean             DEFAULT true,
    spent        bigint              DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
-- The settings that the statements are written for.
SET search_path = pg_catalog, pg_temp
SET DateStyle = 'ISO'
SET IntervalStyle = 'postgres'
SET bytea_output = 'hex'
SET extra_float_digits = '1'
SET array_nulls = 'on'
SET row_security = 'off'
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = 'off'
SET enable_bitmapscan = 'off'
SET enable_hashjoin = 'off'
SET enable_mergejoin = 'off'
SET enable_memoize = 'off'
SET max_parallel_workers_per_gather = '0'
SET work_mem = '256kB'
SET jit = 'off'
AS $finish_task$
-- Version 1 of the function, for version 2 of the schema. The command check looks for the former.
--
-- Each argument means what the field of Return with the same name means; NULL is the default.
#variable_conflict use_column
<<finishing>>
DECLARE
    -- The token: the key of the task, the claim of the fetch, and hints.
    low      bigint;
    claim    bigint;
    high     bigint;
    hash_low bigint := 2216829733; -- of FNV-1a, the halves of 64 bits
    hash_top bigint := 3421674724;
    name     bytea  := convert_to(id, 'UTF8');
    keys     bigint[];
    claims   bigint[];
    ids      text[] := ARRAY[finish_task.id];
    posts    boolean;
    shares   boolean;
    limited  boolean;

    outcome  smallint := CASE coalesce(code, 'completed') COLLATE "C"
                             WHEN 'completed' THEN 0 WHEN 'aborted' THEN 1 WHEN 'pending' THEN 2
                         END;
    said     bytea    := convert_to(status, 'UTF8');
    cut      integer  := 65536; -- the bytes of a status
    statuses text[];
    content  bytea    := coalesce(result_bytes, convert_to(result, 'UTF8'));
    delay    interval := nullif(retry_after, '0'::interval);
    invalid  text;
    excess   text;

    batch    bigint;
    round    integer;
    settled  boolean  := false;
    violated text;
    judged   record;
    changed  record;
    -- What others may wait for.
    ready    text[]   := '{}';
    finished bigint[] := '{}';
    topics   text[];
    payloads text[];
BEGIN
    IF EXISTS (SELECT FROM stint.supported WHERE supported.since > 2) THEN
        RAISE EXCEPTION 'the schema no longer works with this version of the function finish_task'
            USING ERRCODE = 'STI04',
                  HINT = 'Run migrations/finish_task.sql of the release that migrated the schema.';
    END IF;
    invalid := CASE
        WHEN id IS NULL OR octet_length(id) = 0 THEN 'id: must not be empty'
        WHEN token IS NULL THEN 'token: must not be null'
        WHEN outcome IS NULL THEN 'code: must be completed, aborted or pending'
        WHEN result IS NOT NULL AND result_bytes IS NOT NULL
        THEN 'result and result_bytes: exclude each other'
        WHEN outcome = 2 AND content IS NOT NULL THEN 'result: must be null with code pending'
        WHEN outcome < 2 AND delay IS NOT NULL
        THEN 'retry_after: must be null unless the code is pending'
        WHEN delay < '0'::interval THEN 'retry_after: must not be negative'
        WHEN spent NOT BETWEEN 0 AND 1000000000 THEN 'spent: must be 0 to 1000000000'
    END;
    IF invalid IS NOT NULL THEN
        RAISE EXCEPTION 'invalid argument: %', invalid USING ERRCODE = 'STI02';
    END IF;
    excess := CASE
        WHEN octet_length(id) > 512
        THEN format('id bytes: %s exceeds the limit of 512', octet_length(id))
        WHEN octet_length(content) > 67108864
        THEN format('result bytes: %s exceeds the limit of 67108864', octet_length(content))
        WHEN delay > '3650 days'::interval THEN 'retry_after: must not exceed ten years'
    END;
    IF excess IS NOT NULL THEN
        RAISE EXCEPTION 'too large: %', excess USING ERRCODE = 'STI03';
    END IF;
    IF octet_length(said) > cut THEN
        WHILE get_byte(said, cut) & 192 = 128 LOOP -- within a letter
            cut := cut - 1;
        END LOOP;
        said := substring(said FROM 1 FOR cut);
    END IF;
    statuses := ARRAY[nullif(convert_from(said, 'UTF8'), '')];

    -- As internal/numbering takes a token apart: the second half is the variant of the UUID, hints
    -- and the key, the first is the claim mixed with the hash of the ID, so that the token is good
    -- for no other task.
    high := ('x' || left(replace(token::text, '-', ''), 16))::bit(64)::bigint;
    low := ('x' || right(replace(token::text, '-', ''), 16))::bit(64)::bigint;
    FOR place IN 0 .. octet_length(name) - 1 LOOP
        hash_low := hash_low # get_byte(name, place);
        -- Times 2^40 + 435.
        hash_top := (hash_top * 435 + (hash_low * 435 >> 32) + (hash_low << 8)) & 4294967295;
        hash_low := hash_low * 435 & 4294967295;
    END LOOP;
    claim := high # (((hash_top << 32) | hash_low) & ~61440::bigint);
    IF low >> 62 & 3 <> 2 THEN
        claim := 0; -- no UUID that this made; no claim is zero
    END IF;
    keys := ARRAY[low & ((1::bigint << 58) - 1)];
    claims := ARRAY[claim];
    posts := low & (1::bigint << 60) <> 0;
    shares := low & (1::bigint << 59) <> 0;
    -- Limits may be younger than the token.
    limited := low & (1::bigint << 58) <> 0 OR EXISTS (SELECT FROM stint.limits);

    -- The first attempt is for an owner in time. The others are for one who is late, or whom
    -- somebody who adds an edge got ahead of. They are as many as those of ReturnTask.
    FOR attempt IN 0 .. 20 LOOP
        -- A statement ends tasks in round 2^30 of a batch, and the rounds go down from there.
        batch := (random() * 4611686018427387904)::bigint;
        round := 1073741824;
        ready := '{}';
        finished := '{}';
        IF attempt > 0 THEN
            BEGIN
                -- name: revive_tasks
                WITH named AS MATERIALIZED (
                    SELECT DISTINCT named.key, named.claim
                    FROM unnest(finishing.keys::bigint[], finishing.claims::bigint[]) AS named (key, claim)
                ), late AS MATERIALIZED (
                    SELECT ready.*
                    FROM (SELECT named.key, named.claim FROM named ORDER BY named.key) AS named
                    CROSS JOIN LATERAL (
                        SELECT ready.lo AS key, ready.claim, ready.tries, ready.completed, ready.aborted,
                               ready.actor, ready.status, ready.action, ready.ready_at
                        FROM stint.ready
                        WHERE ready.lo = named.key AND ready.claim = named.claim
                          AND ready.late
                          AND (NULL::text IS NULL OR ready.actor = NULL::text)
                          AND (true::boolean OR (SELECT true
                                               FROM stint.limits
                                               WHERE limits.action = ready.action) IS NULL)
                        FOR UPDATE
                    ) AS ready
                ), gone AS (
                    DELETE FROM stint.ready
                    WHERE ready.lo = ANY (ARRAY(SELECT late.key FROM late))
                    RETURNING ready.lo AS key
                ), undone AS (
                    DELETE FROM stint.tries
                    USING (
                        SELECT tries.tid
                        FROM late
                        CROSS JOIN LATERAL (
                            SELECT tries.ctid AS tid
                            FROM stint.tries
                            WHERE tries.key = late.key AND tries.claim = late.claim
                            OFFSET 0
                        ) AS tries
                    ) AS before
                    WHERE tries.ctid = before.tid
                    RETURNING tries.claim, tries.owned_at
                ), uncounted AS (
                    UPDATE stint.losses
                    SET losses = losses.losses - 1, tries = losses.tries - 1
                    FROM (
                        SELECT counted.tid
                        FROM late
                        CROSS JOIN LATERAL (
                            SELECT losses.ctid AS tid
                            FROM stint.losses
                            WHERE losses.key = late.key AND losses.tries = late.tries
                            OFFSET 0
                        ) AS counted
                    ) AS before
                    WHERE losses.ctid = before.tid
                ), owner AS MATERIALIZED (
                    SELECT late.claim, late.actor, count(*) AS size,
                           array_agg(ARRAY[late.key, late.key] ORDER BY late.key) AS spans,
                           coalesce((SELECT max(lease.part) + 1
                                     FROM stint.leases AS lease
                                     WHERE lease.claim = late.claim AND lease.part >= 0), 0) AS part
                    FROM late
                    GROUP BY late.claim, late.actor
                ), lease AS (
                    INSERT INTO stint.leases (claim, part, actor, session, deadline, size, spans, owned_at)
                    SELECT owner.claim, owner.part, owner.actor, NULL::bigint, statement_timestamp(), owner.size,
                           owner.spans,
                           coalesce((SELECT min(undone.owned_at) FROM undone WHERE undone.claim = owner.claim),
                                    statement_timestamp())
                    FROM owner
                )
                INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, status, ready_at,
                                          limited_action)
                SELECT late.key, late.key, late.claim, late.tries, owner.part, late.completed, late.aborted,
                       late.status, late.ready_at,
                       (SELECT limits.action FROM stint.limits WHERE limits.action = late.action)
                FROM late
                JOIN owner ON owner.claim = late.claim;
            EXCEPTION WHEN unique_violation THEN
                GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
                IF violated <> 'leases_pkey' THEN
                    RAISE;
                END IF;
                CONTINUE; -- another task of the fetch has got the number of the lease
            END;
        END IF;
        IF shares THEN
            -- name: split_leased
            WITH cut AS MATERIALIZED (
                SELECT found.lo, array_agg(named.lo ORDER BY named.lo) AS los,
                       array_agg(named.hi ORDER BY named.lo) AS his
                FROM unnest(finishing.keys::bigint[], finishing.keys::bigint[]) AS named (lo, hi)
                CROSS JOIN LATERAL (
                    SELECT span.lo
                    FROM (VALUES (named.lo), (named.hi)) AS border (key)
                    CROSS JOIN LATERAL (
                        SELECT leased.lo, leased.hi
                        FROM stint.leased
                        WHERE leased.lo BETWEEN border.key >> 10 << 10 AND border.key
                        ORDER BY leased.lo DESC
                        LIMIT 1
                    ) AS span
                    WHERE span.hi >= border.key AND (span.lo < named.lo OR span.hi > named.hi)
                    GROUP BY span.lo
                ) AS found
                GROUP BY found.lo
                ORDER BY found.lo
            ),
            locked AS MATERIALIZED (
                SELECT cut.*
                FROM cut
                CROSS JOIN LATERAL (
                    SELECT leased.lo FROM stint.leased WHERE leased.lo = cut.lo FOR UPDATE
                ) AS leased
            ), gone AS (
                DELETE FROM stint.leased
                USING (
                    SELECT locked.*, leased.tid
                    FROM locked
                    CROSS JOIN LATERAL (
                        SELECT leased.ctid AS tid FROM stint.leased WHERE leased.lo = locked.lo OFFSET 0
                    ) AS leased
                ) AS span
                WHERE leased.ctid = span.tid
                RETURNING leased.*, span.los, span.his
            )
            INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, ready_at, limited_action)
            SELECT piece.lo, piece.hi, gone.claim, gone.tries, gone.part, gone.completed, gone.aborted,
                   gone.ready_at, gone.limited_action
            FROM gone
            CROSS JOIN LATERAL (
                SELECT greatest(named.lo, gone.lo) AS lo, least(named.hi, gone.hi) AS hi
                FROM unnest(gone.los, gone.his) AS named (lo, hi)
                UNION ALL
                SELECT greatest(gap.lo, chunk.n << 4), least(gap.hi, (chunk.n << 4) + 15)
                FROM (
                    SELECT coalesce(lag(named.hi) OVER (ORDER BY named.lo) + 1, gone.lo) AS lo,
                           named.lo - 1 AS hi
                    FROM (
                        SELECT * FROM unnest(gone.los, gone.his)
                        UNION ALL
                        SELECT gone.hi + 1, NULL
                    ) AS named (lo, hi)
                ) AS gap
                CROSS JOIN LATERAL generate_series(gap.lo >> 4, gap.hi >> 4) AS chunk (n)
                WHERE gap.lo <= gap.hi
            ) AS piece;
        END IF;
        IF limited THEN
            -- Tasks of fair actions and of keys with a rate are left to those who maintain, since
            -- others would wait for their turns and buckets until the caller's transaction ends.
            FOR changed IN
                -- name: unpark_within_limits
                WITH owned AS MATERIALIZED (
                    SELECT leased.lo, leased.hi, leased.limited_action AS action
                    FROM unnest(finishing.keys::bigint[], finishing.keys::bigint[], finishing.claims::bigint[]) AS named (lo, hi, claim)
                    CROSS JOIN LATERAL (
                        SELECT leased.lo, leased.hi, leased.limited_action
                        FROM stint.leased
                        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
                          AND (leased.claim = named.claim OR named.claim IS NULL)
                        OFFSET 0
                    ) AS leased
                    WHERE leased.limited_action IS NOT NULL
                    UNION ALL
                    SELECT ready.lo, ready.hi, ready.action
                    FROM unnest(finishing.keys::bigint[], finishing.keys::bigint[]) AS named (lo, hi)
                    CROSS JOIN LATERAL (
                        SELECT ready.lo, ready.hi, ready.action
                        FROM stint.ready
                        WHERE ready.lo = named.lo AND ready.hi + 0 = named.hi AND ready.position >= 0
                        OFFSET 0
                    ) AS ready
                    WHERE finishing.claims::bigint[] IS NULL
                      AND (SELECT true FROM stint.limits WHERE limits.action = ready.action) IS NOT NULL
                    UNION ALL
                    SELECT holder.key, holder.key, task.action
                    FROM unnest(finishing.keys::bigint[], finishing.keys::bigint[]) AS named (lo, hi)
                    CROSS JOIN LATERAL (
                        SELECT tasks.action, tasks.limit_key
                        FROM stint.tasks
                        WHERE tasks.key BETWEEN named.lo AND named.hi AND tasks.limit_key IS NOT NULL
                          AND finishing.claims::bigint[] IS NULL
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
                    SELECT array_agg(limited.action) AS actions
                    FROM (SELECT DISTINCT owned.action FROM owned) AS limited
                    WHERE (SELECT true
                           FROM stint.ready
                           WHERE ready.action = limited.action AND ready.position < 0
                           ORDER BY ready.action, ready.limit_key
                           LIMIT 1) IS NOT NULL
                ), due AS MATERIALIZED (
                    SELECT rates.action, rates.limit_key, rates.wake_at
                    FROM (SELECT DISTINCT named.action FROM unnest(NULL::text[]) AS named (action)) AS named
                    CROSS JOIN LATERAL (
                        (
                            SELECT key_rates.action, key_rates.limit_key, key_rates.wake_at
                            FROM stint.key_rates
                            WHERE key_rates.action = named.action AND key_rates.wake_at <= statement_timestamp()
                            ORDER BY key_rates.action, key_rates.wake_at
                            LIMIT 1000
                        )
                        UNION ALL
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
                    FROM unnest(NULL::text[], NULL::text[]) AS named (action, limit_key)
                    UNION
                    SELECT due.action, due.limit_key FROM due
                ), below AS MATERIALIZED (
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
                        SELECT count(*) AS slots
                        FROM (
                            SELECT slots.key, slots.claim
                            FROM stint.slots
                            WHERE slots.action = named.action AND slots.limit_key = named.limit_key
                              AND limits.per_key IS NOT NULL
                            OFFSET 0
                        ) AS slot
                        CROSS JOIN LATERAL (
                            SELECT leased.hi, leased.claim
                            FROM stint.leased
                            WHERE leased.lo BETWEEN slot.key >> 10 << 10 AND slot.key
                            ORDER BY leased.lo DESC
                            LIMIT 1
                        ) AS leased
                        WHERE leased.hi >= slot.key AND leased.claim = slot.claim
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
                        SELECT CASE WHEN held.goes_on THEN held.parked ELSE (
                                   SELECT ready.lo
                                   FROM stint.ready
                                   WHERE ready.action = made.action AND ready.limit_key = made.limit_key
                                     AND ready.position < 0
                                     AND coalesce((finishing.keys::bigint[])[width_bucket(ready.lo, finishing.keys::bigint[])], -1)
                                         < ready.lo
                                   ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
                                   LIMIT 1
                               ) END AS lo, held.goes_on AS holds
                        FROM (
                            SELECT count(*) > 0 AS goes_on,
                                   min((SELECT ready.lo
                                        FROM stint.ready
                                        WHERE ready.lo = holder.key AND ready.position + 0 < 0)) AS parked
                            FROM (
                                SELECT holders.key, holders.max_tries,
                                       width_bucket(holders.key, finishing.keys::bigint[]) AS place
                                FROM stint.holders
                                WHERE holders.action = made.action AND holders.limit_key = made.limit_key
                                OFFSET 0
                            ) AS holder
                            WHERE coalesce((finishing.keys::bigint[])[holder.place], -1) < holder.key
                               OR (ARRAY[finishing.outcome]::smallint[])[holder.place] > 2
                               OR (ARRAY[finishing.outcome]::smallint[])[holder.place] = 2
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
                    WHERE false::boolean
                    ORDER BY bucket.action, bucket.limit_key
                    ON CONFLICT (action, limit_key) DO UPDATE
                    SET wake_at = CASE WHEN excluded.wake_at IS NULL AND key_rates.wake_at <> excluded.seen_at
                                       THEN key_rates.wake_at
                                       ELSE excluded.wake_at
                                  END,
                        full_at = least(key_rates.full_at, (
                            SELECT clock_timestamp() + limits.key_burst
                                       * (date_part('epoch', limits.key_per) / limits.key_tasks) * interval '1 s'
                            FROM stint.limits
                            WHERE limits.action = excluded.action AND NOT limits.by_cost))
                ), turn AS (
                    INSERT INTO stint.turns AS turns (action, limit_key, tier, pass)
                    SELECT key.action, key.limit_key, first.tier, coalesce(
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
                    WHERE key.fair AND key.capacity > key.back AND false::boolean
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
                    SELECT counted.*, least(counted.hi, counted.lo + counted.capacity::bigint - counted.before - 1)
                               AS last
                    FROM (
                        SELECT back.*, (sum(back.size) OVER of_key)::bigint - back.size AS before
                        FROM back
                        WINDOW of_key AS (PARTITION BY back.action, back.limit_key ORDER BY back.rank, back.hi)
                    ) AS counted
                    WHERE counted.before < counted.capacity
                ), moved AS (
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
                    WHERE NOT false::boolean AND (key.fair OR key.each IS NOT NULL)
                ) AS limited
            LOOP
                IF changed.limit_key = '' THEN
                    ready := ready || changed.action;
                END IF;
            END LOOP;
        END IF;
        IF outcome = 2 THEN
            -- Stores that keep a history keep this try; those that maintain prune it.
            -- name: remember_tries
            WITH named AS MATERIALIZED (
                SELECT *
                FROM unnest(
                    finishing.keys::bigint[], finishing.keys::bigint[], finishing.claims::bigint[], '{true}'::boolean[], ARRAY[finishing.outcome]::smallint[], ARRAY[finishing.posts]::boolean[],
                    finishing.statuses::text[], '{NULL}'::text[]
                ) AS named (lo, hi, claim, kept, outcome, posts, status, log)
            ), owned AS MATERIALIZED (
                SELECT named.*, leased.tries, leased.part, leased.said
                FROM named
                CROSS JOIN LATERAL (
                    SELECT leased.tries, leased.part, leased.status AS said
                    FROM stint.leased
                    WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
                      AND leased.claim = named.claim
                    ORDER BY leased.lo
                    FOR UPDATE
                ) AS leased
            )
            INSERT INTO stint.tries (key, claim, owned_at, tries, outcome, actor, status, log)
            SELECT owned.lo, owned.claim, lease.owned_at, owned.tries, owned.outcome, lease.actor,
                   CASE owned.outcome WHEN 3 /* released */ THEN coalesce(owned.status, owned.said)
                                      ELSE owned.status END,
                   owned.log
            FROM owned
            CROSS JOIN LATERAL (
                SELECT leases.actor, leases.owned_at
                FROM stint.leases
                WHERE leases.claim = owned.claim AND leases.part = owned.part
                OFFSET 0
            ) AS lease
            WHERE owned.kept
              AND (owned.outcome >= 2 OR owned.posts
                   OR CASE owned.outcome WHEN 0 /* completed */ THEN true::boolean ELSE true::boolean END
                   OR (SELECT true FROM stint.edges WHERE edges.after = owned.lo LIMIT 1));
        END IF;
        IF spent IS NOT NULL THEN
            -- name: note_spent
            WITH named AS MATERIALIZED (
                SELECT *
                FROM unnest(finishing.keys::bigint[], finishing.keys::bigint[], finishing.claims::bigint[], ARRAY[finish_task.spent]::bigint[])
                    AS named (lo, hi, claim, spent)
            ), owned AS MATERIALIZED (
                SELECT named.lo AS key, named.claim, named.spent
                FROM named
                CROSS JOIN LATERAL (
                    SELECT leased.lo
                    FROM stint.leased
                    WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
                      AND leased.claim = named.claim
                    ORDER BY leased.lo
                    FOR UPDATE
                ) AS leased
            )
            INSERT INTO stint.spent (key, claim, more, priority, action, limit_key)
            SELECT owned.key, owned.claim, owned.spent - coalesce(task.cost, 1), task.priority,
                   task.action, coalesce(task.limit_key, '')
            FROM owned
            CROSS JOIN LATERAL (
                SELECT tasks.action, tasks.limit_key, tasks.cost, tasks.priority
                FROM stint.tasks
                WHERE tasks.key = owned.key
                OFFSET 0
            ) AS task
            CROSS JOIN LATERAL (
                SELECT limits.action
                FROM stint.limits
                WHERE limits.action = task.action AND limits.by_cost
                OFFSET 0
            ) AS limits
            WHERE owned.spent IS NOT NULL AND owned.spent <> coalesce(task.cost, 1)
            ON CONFLICT (action, key, claim) DO NOTHING;
        END IF;
        IF attempt > 0 THEN
            FOR changed IN
                -- name: hold_ownership
                SELECT leased.lo, leased.claim
                FROM unnest(finishing.keys::bigint[], finishing.claims::bigint[]) AS named (key, claim)
                CROSS JOIN LATERAL (
                    SELECT leased.lo, leased.claim
                    FROM stint.leased
                    WHERE leased.lo = named.key AND leased.hi = named.key AND leased.claim = named.claim
                    FOR KEY SHARE
                ) AS leased
            LOOP END LOOP;
        END IF;
        -- The row stays until those who prune take it, also if no store keeps such tasks.
        FOR changed IN
            -- name: return_tasks
            WITH returned AS MATERIALIZED (
                SELECT *
                FROM unnest(
                    finishing.keys::bigint[], finishing.keys::bigint[], finishing.claims::bigint[], ARRAY[finishing.outcome]::smallint[], ARRAY[finishing.posts]::boolean[],
                    finishing.statuses::text[], ARRAY[finishing.content]::bytea[]
                    , ARRAY[finishing.delay]::interval[]
                ) WITH ORDINALITY
                    AS returned (lo, hi, claim, outcome, posts, status, result, retry_after, place)
            ), linked AS MATERIALIZED (
                SELECT true AS found
                FROM stint.edges
                WHERE edges.after BETWEEN (SELECT min(returned.lo) FROM returned)
                                      AND (SELECT max(returned.hi) FROM returned)
                LIMIT 1
            ), held AS (
                SELECT leased.*, lease.actor, lease.owned_at, returned.place, returned.outcome, returned.posts,
                       returned.status, returned.result,
                       returned.retry_after, task.action, task.priority, task.deadline,
                       CASE
                           WHEN returned.outcome < 2 THEN returned.outcome
                           WHEN returned.outcome = 2 AND task.max_tries > 0
                                AND leased.tries >= task.max_tries THEN 2 /* tries */
                       END AS cause,
                       CASE WHEN (SELECT linked.found FROM linked) THEN
                           (SELECT true
                            FROM stint.edges
                            WHERE edges.after BETWEEN leased.lo AND leased.hi
                            LIMIT 1)
                       END AS signals
                FROM returned
                CROSS JOIN LATERAL (
                    SELECT leased.ctid AS tid, leased.xmin AS version, leased.lo, leased.hi, leased.claim,
                           leased.part, leased.tries, leased.completed, leased.aborted, leased.status AS said,
                           leased.ready_at
                    FROM stint.leased
                    WHERE leased.lo BETWEEN returned.lo AND returned.hi AND leased.hi <= returned.hi
                      AND leased.claim = returned.claim
                    OFFSET 0
                ) AS leased
                CROSS JOIN LATERAL (
                    SELECT leases.actor, leases.owned_at
                    FROM stint.leases
                    WHERE leases.claim = leased.claim AND leases.part = leased.part
                    OFFSET 0
                ) AS lease
                LEFT JOIN LATERAL (
                    SELECT tasks.action, tasks.priority, tasks.deadline, tasks.max_tries
                    FROM stint.tasks
                    WHERE tasks.key = leased.lo AND returned.outcome >= 2
                    OFFSET 0
                ) AS task ON true
            ), ended AS (
                DELETE FROM stint.leased
                USING held
                WHERE leased.ctid = held.tid AND leased.xmin = held.version
                RETURNING held.*
                    , held.posts OR held.signals IS NOT NULL
                          OR CASE held.cause WHEN 0 /* completed */ THEN true::boolean ELSE true::boolean END
                          AS kept
            ), kept AS (
                INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor, owned_at, ready_at, status,
                                            result)
                SELECT ended.lo, ended.hi, ended.claim, ended.tries, ended.cause, ended.actor,
                       ended.owned_at, ended.ready_at, ended.status,
                       ended.result
                FROM ended
                WHERE ended.cause IS NOT NULL AND ended.kept
            ), dropped AS (
                DELETE FROM stint.tasks
                USING (
                    SELECT task.tid
                    FROM ended
                    CROSS JOIN LATERAL (
                        SELECT tasks.ctid AS tid
                        FROM stint.tasks
                        WHERE tasks.key BETWEEN ended.lo AND ended.hi
                        OFFSET 0
                    ) AS task
                    WHERE ended.cause IS NOT NULL AND NOT ended.kept
                ) AS definition
                WHERE tasks.ctid = definition.tid
            ), untied AS (
                DELETE FROM stint.edges
                WHERE edges.run = ANY (ARRAY(
                    SELECT edge.run
                    FROM ended
                    CROSS JOIN LATERAL (
                        SELECT edges.run
                        FROM stint.edges
                        WHERE edges.run BETWEEN ended.lo AND ended.hi
                        OFFSET 0
                    ) AS edge
                    WHERE ended.cause IS NOT NULL AND NOT ended.kept AND ended.completed IS NOT NULL
                ))
            ), signalled AS (
                INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
                SELECT finishing.batch::bigint, finishing.round::integer, edge.run, count(*),
                       count(*) FILTER (WHERE ended.cause = 0 /* completed */),
                       count(*) FILTER (WHERE ended.cause > 0),
                       bool_or(ended.cause > 0 AND coalesce(edge.accepts & 10, 0) = 0),
                       bit_or(CASE WHEN edge.accepts IS NOT NULL THEN
                           CASE
                               WHEN
                                   CASE ended.cause
                                       WHEN 0 /* completed */
                                       THEN edge.accepts & 1 <> 0 AND (edge.results IS NULL OR coalesce(ended.result, '') = ANY (edge.results))
                                       WHEN 8 /* skipped */ THEN edge.accepts & 4 <> 0
                                       WHEN 5 /* replaced */ THEN false
                                       WHEN 7 /* deleted */ THEN coalesce(edge.results = '{}', false)
                                       ELSE edge.accepts & 2 <> 0 -- aborted
                                   END
                               THEN edge.accepts & 8 >> 2
                               WHEN edge.accepts & 8 <> 0 THEN 4
                               ELSE 1
                           END::smallint
                       END)
                FROM ended
                CROSS JOIN LATERAL (
                    SELECT edges.run, edges.accepts, edges.results
                    FROM stint.edges
                    WHERE edges.after BETWEEN ended.lo AND ended.hi
                    OFFSET 0
                ) AS edge
                WHERE ended.cause IS NOT NULL AND ended.signals IS NOT NULL
                GROUP BY edge.run
            ), again AS (
                INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority, deadline,
                                         ready_at, status)
                SELECT ended.lo, ended.hi, ended.claim, ended.tries - (ended.outcome = 3)::integer,
                       ended.completed, ended.aborted, ended.action, ended.priority, ended.deadline,
                       statement_timestamp(),
                       CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
                FROM ended
                WHERE ended.cause IS NULL AND ended.retry_after IS NULL
            ), later AS (
                INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
                SELECT ended.lo, statement_timestamp() + ended.retry_after, ended.claim,
                       ended.tries - (ended.outcome = 3)::integer, ended.completed, ended.aborted,
                       CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
                FROM ended
                WHERE ended.cause IS NULL AND ended.retry_after IS NOT NULL
            ), emptied AS (
                DELETE FROM stint.leases
                USING (
                    SELECT lease.tid
                    FROM (
                        SELECT ended.claim, ended.part, sum(ended.hi - ended.lo + 1) AS size
                        FROM ended
                        WHERE false::boolean
                        GROUP BY ended.claim, ended.part
                    ) AS part
                    CROSS JOIN LATERAL (
                        SELECT leases.ctid AS tid
                        FROM stint.leases
                        WHERE leases.claim = part.claim AND leases.part = part.part
                          AND leases.size = part.size
                        OFFSET 0
                    ) AS lease
                ) AS whole
                WHERE leases.ctid = whole.tid
            )
            SELECT ended.place, ended.lo, ended.hi, ended.cause IS NOT NULL AS finished,
                   CASE WHEN ended.cause IS NULL THEN ended.action END AS again
            FROM ended
        LOOP
            settled := true;
            IF changed.finished AND posts THEN
                finished := finished || changed.lo;
            END IF;
            ready := ready || changed.again;
        END LOOP;
        IF attempt > 0 AND outcome = 2 THEN
            FOR changed IN
                -- name: note_late
                WITH said AS MATERIALIZED (
                    SELECT named.place, named.key, named.claim, named.status, named.spent
                    FROM unnest(finishing.keys::bigint[], finishing.claims::bigint[], finishing.statuses::text[], ARRAY[finish_task.spent]::bigint[])
                        WITH ORDINALITY AS named (key, claim, status, spent, place)
                    CROSS JOIN LATERAL (
                        SELECT finished.lo
                        FROM stint.finished
                        WHERE finished.lo = named.key AND finished.claim = ~named.claim
                        FOR UPDATE
                    ) AS finished
                ), late AS (
                    UPDATE stint.finished
                    SET claim = late.claim, status = late.status
                    FROM (
                        SELECT said.*, finished.tid
                        FROM said
                        CROSS JOIN LATERAL (
                            SELECT finished.ctid AS tid FROM stint.finished WHERE finished.lo = said.key OFFSET 0
                        ) AS finished
                    ) AS late
                    WHERE finished.ctid = late.tid
                    RETURNING late.place, late.key, late.claim, late.spent
                ), noted AS (
                    INSERT INTO stint.spent (key, claim, more, priority, action, limit_key)
                    SELECT late.key, late.claim, late.spent - coalesce(task.cost, 1), task.priority,
                           task.action, coalesce(task.limit_key, '')
                    FROM late
                    CROSS JOIN LATERAL (
                        SELECT tasks.action, tasks.limit_key, tasks.cost, tasks.priority
                        FROM stint.tasks
                        WHERE tasks.key = late.key
                        OFFSET 0
                    ) AS task
                    CROSS JOIN LATERAL (
                        SELECT limits.action
                        FROM stint.limits
                        WHERE limits.action = task.action AND limits.by_cost
                        OFFSET 0
                    ) AS limits
                    WHERE late.spent IS NOT NULL AND late.spent <> coalesce(task.cost, 1)
                    ON CONFLICT (action, key, claim) DO NOTHING
                )
                SELECT late.place FROM late
            LOOP
                settled := true;
            END LOOP;
        END IF;
        WHILE EXISTS (SELECT FROM stint.settling WHERE settling.batch = finishing.batch) LOOP
            FOR changed IN
                -- name: lock_dependents
                WITH RECURSIVE reached (key, fate, signals, verdict) AS (
                    SELECT settling.key,
                           CASE WHEN settling.verdict & 16 <> 0 THEN 7 ELSE settling.spoiled::integer END,
                           settling.signals, settling.verdict & 15
                    FROM stint.settling
                    WHERE settling.batch = finishing.batch::bigint AND settling.round = finishing.round::integer
                      AND settling.cause IS NULL
                    UNION
                    SELECT edge.run,
                           CASE
                               WHEN settling.cause IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */,
                                                       8 /* skipped */)
                               THEN settling.cause
                               WHEN edge.accepts & 10 <> 0 THEN 0
                               ELSE 1 /* aborted */
                           END, 1,
                           CASE WHEN edge.accepts IS NOT NULL THEN
                               CASE
                                   WHEN
                                       CASE settling.cause
                                           WHEN 0 /* completed */
                                           THEN edge.accepts & 1 <> 0 AND (edge.results IS NULL OR '' = ANY (edge.results))
                                           WHEN 8 /* skipped */ THEN edge.accepts & 4 <> 0
                                           WHEN 5 /* replaced */ THEN false
                                           WHEN 7 /* deleted */ THEN coalesce(edge.results = '{}', false)
                                           ELSE edge.accepts & 2 <> 0 -- aborted
                                       END
                                   THEN edge.accepts & 8 >> 2
                                   WHEN edge.accepts & 8 <> 0 THEN 4
                                   ELSE 1
                               END::smallint
                           END
                    FROM stint.settling
                    CROSS JOIN LATERAL (
                        SELECT edges.run, edges.accepts, edges.results
                        FROM stint.edges
                        WHERE edges.after = settling.key
                        OFFSET 0
                    ) AS edge
                    WHERE settling.batch = finishing.batch::bigint AND settling.round = finishing.round::integer
                      AND settling.cause IS NOT NULL
                    UNION
                    SELECT edge.run, CASE WHEN task.fate = 1 AND edge.accepts & 10 <> 0 THEN 0 ELSE task.fate END,
                           1,
                           CASE WHEN edge.accepts IS NOT NULL THEN
                               CASE
                                   WHEN
                                       CASE task.fate
                                           WHEN 0 /* completed */
                                           THEN edge.accepts & 1 <> 0 AND (edge.results IS NULL OR '' = ANY (edge.results))
                                           WHEN 8 /* skipped */ THEN edge.accepts & 4 <> 0
                                           WHEN 5 /* replaced */ THEN false
                                           WHEN 7 /* deleted */ THEN coalesce(edge.results = '{}', false)
                                           ELSE edge.accepts & 2 <> 0 -- aborted
                                       END
                                   THEN edge.accepts & 8 >> 2
                                   WHEN edge.accepts & 8 <> 0 THEN 4
                                   ELSE 1
                               END::smallint
                           END
                    FROM reached
                    CROSS JOIN LATERAL (
                        SELECT CASE
                                   WHEN reached.fate = 1 /* aborted */ AND tasks.on_abort = 0
                                        AND (SELECT true FROM stint.blocked WHERE blocked.key = reached.key)
                                   THEN 1 /* aborted */
                                   WHEN reached.verdict & 1 <> 0
                                        OR reached.verdict IS NULL AND reached.fate = 8 /* skipped */
                                           AND tasks.on_abort = 0
                                   THEN 8 /* skipped */
                                   WHEN reached.verdict & 2 <> 0 AND tasks.action = E'\x73tint.Spontaneous'
                                   THEN 0 /* completed */
                                   WHEN (reached.fate = 7 /* deleted */ OR reached.verdict = 4
                                         OR tasks.action = E'\x73tint.Spontaneous')
                                        AND (SELECT blocked.missing
                                             FROM stint.blocked
                                             WHERE blocked.key = reached.key) <= reached.signals
                                   THEN CASE
                                            WHEN reached.fate = 7 /* deleted */ THEN 7 /* deleted */
                                            WHEN reached.verdict = 4 THEN 8 /* skipped */
                                            ELSE 0 /* completed */
                                        END
                               END AS fate
                        FROM stint.tasks
                        WHERE tasks.key = reached.key
                        OFFSET 0
                    ) AS task
                    CROSS JOIN LATERAL (
                        SELECT edges.run, edges.accepts, edges.results
                        FROM stint.edges
                        WHERE edges.after = reached.key
                        OFFSET 0
                    ) AS edge
                    WHERE task.fate IS NOT NULL
                )
                SELECT blocked.key
                FROM (SELECT DISTINCT reached.key FROM reached ORDER BY reached.key) AS target
                CROSS JOIN LATERAL (
                    SELECT blocked.key FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
                ) AS blocked
            LOOP END LOOP;
            FOR changed IN
                -- name: settle_tasks
                WITH RECURSIVE due AS (
                    DELETE FROM stint.settling
                    WHERE settling.batch = finishing.batch::bigint AND settling.round = finishing.round::integer
                    RETURNING settling.*
                ), doomed (key) AS (
                    SELECT due.key
                    FROM due
                    WHERE due.spoiled
                      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = due.key) = 0
                    UNION
                    SELECT edge.run
                    FROM due
                    CROSS JOIN LATERAL (
                        SELECT edges.run
                        FROM stint.edges
                        WHERE edges.after = due.key AND coalesce(edges.accepts & 10, 0) = 0
                        OFFSET 0
                    ) AS edge
                    WHERE due.cause NOT IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */, 8 /* skipped */)
                      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
                    UNION
                    SELECT edge.run
                    FROM doomed
                    CROSS JOIN LATERAL (
                        SELECT edges.run
                        FROM stint.edges
                        WHERE edges.after = doomed.key AND coalesce(edges.accepts & 10, 0) = 0
                          AND (SELECT true FROM stint.blocked WHERE blocked.key = doomed.key)
                        OFFSET 0
                    ) AS edge
                    WHERE (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
                ), fallen AS MATERIALIZED (
                    SELECT doomed.key, blocked.tries, blocked.status, blocked.version = seen.version AS unmoved
                    FROM (SELECT doomed.key FROM doomed ORDER BY doomed.key) AS doomed
                    CROSS JOIN LATERAL (
                        SELECT blocked.xmin AS version FROM stint.blocked WHERE blocked.key = doomed.key OFFSET 0
                    ) AS seen
                    CROSS JOIN LATERAL (
                        SELECT blocked.*, blocked.xmin AS version
                        FROM stint.blocked
                        WHERE blocked.key = doomed.key
                        FOR UPDATE
                    ) AS blocked
                ), ending (key, otherwise) AS (
                    SELECT due.key, due.spoiled IS true OR coalesce(due.verdict, 0) <> 0
                    FROM due
                    WHERE due.cause IS NULL
                    UNION
                    SELECT edge.run, due.cause <> 0 /* completed */ OR edge.accepts IS NOT NULL
                    FROM due
                    CROSS JOIN LATERAL (
                        SELECT edges.run, edges.accepts FROM stint.edges WHERE edges.after = due.key OFFSET 0
                    ) AS edge
                    WHERE due.cause IS NOT NULL
                    UNION
                    SELECT edge.run, ending.otherwise OR edge.accepts IS NOT NULL
                    FROM ending
                    CROSS JOIN LATERAL (
                        SELECT edges.run, edges.accepts
                        FROM stint.edges
                        WHERE edges.after = ending.key
                          AND (SELECT true FROM stint.blocked WHERE blocked.key = ending.key)
                          AND (ending.otherwise
                               OR (SELECT tasks.action
                                   FROM stint.tasks
                                   WHERE tasks.key = ending.key) = E'\x73tint.Spontaneous')
                        OFFSET 0
                    ) AS edge
                ), threatened (key) AS (
                    SELECT edge.run
                    FROM ending
                    CROSS JOIN LATERAL (
                        SELECT edges.run
                        FROM stint.edges
                        WHERE edges.after = ending.key AND coalesce(edges.accepts & 10, 0) = 0
                          AND (SELECT several.accepts & 8
                               FROM stint.edges AS several
                               WHERE several.run = ending.key
                               LIMIT 1) <> 0
                          AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = ending.key) = 0
                          AND (SELECT true FROM stint.blocked WHERE blocked.key = ending.key)
                        OFFSET 0
                    ) AS edge
                    WHERE ending.otherwise
                      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
                    UNION
                    SELECT edge.run
                    FROM threatened
                    CROSS JOIN LATERAL (
                        SELECT edges.run
                        FROM stint.edges
                        WHERE edges.after = threatened.key AND coalesce(edges.accepts & 10, 0) = 0
                          AND (SELECT true FROM stint.blocked WHERE blocked.key = threatened.key)
                        OFFSET 0
                    ) AS edge
                    WHERE (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
                ), walk (key, cause, claim, tries, actor, status, missing, had_completed, had_aborted, not_before,
                         signals, completed, aborted, orphans, moved, verdict, age, kept) AS (
                    SELECT due.key, due.cause, due.claim, due.tries, due.actor, due.status, 0, 0, 0,
                           NULL::timestamptz, coalesce(due.signals, 0), coalesce(due.completed, 0),
                           coalesce(due.aborted, 0), 0, false, coalesce(due.verdict, 0::smallint), 8,
                           due.cause IS NULL
                    FROM due
                    WHERE due.cause IS NOT NULL OR due.spoiled IS NOT true
                       OR (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = due.key) <> 0
                    UNION ALL
                    SELECT fallen.key, 3::smallint /* a predecessor */, NULL, fallen.tries, NULL, fallen.status,
                           0, 0, 0, NULL, 0, 0, 0, 0, false, 0::smallint, 0, false
                    FROM fallen
                    WHERE fallen.unmoved
                    UNION ALL
                    SELECT step.key, step.cause, CASE WHEN step.cause IS NULL THEN step.claim END, step.tries, NULL,
                           step.status, step.missing, step.had_completed, step.had_aborted, step.not_before,
                           step.signals, step.completed, step.aborted, step.orphans, step.moved,
                           step.verdict | CASE WHEN step.cause IS NOT NULL AND step.verdict & 3 <> 0
                                                    AND step.missing > step.signals THEN 8
                                               ELSE 0
                                          END::smallint,
                           step.age,
                           step.cause IS NULL
                               AND (step.age > 0 OR step.verdict & 8 <> 0 AND step.missing > step.signals)
                               AND bool_or(step.cause IS NOT NULL) OVER ()
                    FROM (
                        SELECT arrived.*, judged.cause, seen.moved, blocked.claim, blocked.tries, blocked.status,
                               blocked.missing, blocked.completed AS had_completed,
                               blocked.aborted AS had_aborted, blocked.not_before
                        FROM (
                            SELECT arrival.key, max(arrival.age) AS age, sum(arrival.signals)::integer AS signals,
                                   least(sum(arrival.completed), 2147483647)::integer AS completed,
                                   least(sum(arrival.aborted), 2147483647)::integer AS aborted,
                                   sum(arrival.orphans)::integer AS orphans, bit_or(arrival.verdict) AS verdict
                            FROM (
                                SELECT arrival.*
                                FROM walk
                                CROSS JOIN LATERAL (
                                    SELECT walk.key, walk.signals, walk.completed, walk.aborted, walk.orphans,
                                           walk.verdict, walk.age - 1
                                    WHERE walk.kept OR walk.verdict & 8 <> 0 AND walk.cause IS NOT NULL
                                    UNION ALL
                                    SELECT edges.run, 1,
                                           CASE WHEN walk.cause = 0 /* completed */
                                                THEN least(walk.had_completed::bigint + walk.completed, 2147483647)
                                                ELSE 0 END::integer,
                                           CASE WHEN walk.cause = 0 /* completed */
                                                     AND edges.accepts & 8 <> 0 AND NOT
                                                     CASE walk.cause
                                                         WHEN 0 /* completed */
                                                         THEN edges.accepts & 1 <> 0 AND (edges.results IS NULL OR '' = ANY (edges.results))
                                                         WHEN 8 /* skipped */ THEN edges.accepts & 4 <> 0
                                                         WHEN 5 /* replaced */ THEN false
                                                         WHEN 7 /* deleted */ THEN coalesce(edges.results = '{}', false)
                                                         ELSE edges.accepts & 2 <> 0 -- aborted
                                                     END
                                                THEN 0 -- not met: only tasks that were aborted themselves count
                                                WHEN walk.cause = 0 /* completed */
                                                THEN least(walk.had_aborted::bigint + walk.aborted, 2147483647)
                                                WHEN walk.cause IN (5 /* replaced */, 7 /* deleted */,
                                                                    8 /* skipped */) THEN 0
                                                ELSE 1 END::integer,
                                           (walk.cause = 7 /* deleted */ AND edges.accepts IS NULL)::integer,
                                           CASE
                                               WHEN edges.accepts IS NULL
                                               THEN (walk.cause = 8 /* skipped */ AND (
                                                         SELECT tasks.on_abort
                                                         FROM stint.tasks
                                                         WHERE tasks.key = edges.run
                                                     ) = 0)::integer
                                               ELSE
                                                   CASE
                                                       WHEN
                                                           CASE walk.cause
                                                               WHEN 0 /* completed */
                                                               THEN edges.accepts & 1 <> 0 AND (edges.results IS NULL OR '' = ANY (edges.results))
                                                               WHEN 8 /* skipped */ THEN edges.accepts & 4 <> 0
                                                               WHEN 5 /* replaced */ THEN false
                                                               WHEN 7 /* deleted */ THEN coalesce(edges.results = '{}', false)
                                                               ELSE edges.accepts & 2 <> 0 -- aborted
                                                           END
                                                       THEN edges.accepts & 8 >> 2
                                                       WHEN edges.accepts & 8 <> 0 THEN 4
                                                       ELSE 1
                                                   END::smallint
                                           END::smallint, 8
                                    FROM stint.edges
                                    WHERE edges.after = walk.key AND walk.cause IS NOT NULL
                                      AND (walk.cause IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */,
                                                          8 /* skipped */)
                                           OR edges.accepts & 10 <> 0
                                           OR (SELECT tasks.on_abort
                                               FROM stint.tasks
                                               WHERE tasks.key = edges.run) <> 0)
                                ) AS arrival (key, signals, completed, aborted, orphans, verdict, age)
                            ) AS arrival
                            GROUP BY arrival.key
                            ORDER BY arrival.key
                        ) AS arrived
                        CROSS JOIN LATERAL (
                            SELECT blocked.*, blocked.xmin AS version
                            FROM stint.blocked
                            WHERE blocked.key = arrived.key
                            FOR UPDATE
                        ) AS blocked
                        CROSS JOIN LATERAL (
                            SELECT blocked.version IS DISTINCT FROM (
                                SELECT blocked.xmin FROM stint.blocked WHERE blocked.key = arrived.key
                            ) AS moved
                            OFFSET 0
                        ) AS seen
                        CROSS JOIN LATERAL (
                            SELECT CASE
                                       WHEN arrived.verdict & 8 <> 0
                                            OR blocked.missing <> arrived.signals AND arrived.verdict & 3 = 0
                                            OR arrived.verdict & 1 = 0
                                               AND (arrived.verdict & 2 <> 0
                                                    OR arrived.verdict = 0 AND arrived.orphans = 0)
                                               AND (
                                                   (SELECT tasks.action
                                                    FROM stint.tasks
                                                    WHERE tasks.key = arrived.key) <> E'\x73tint.Spontaneous'
                                                   OR blocked.not_before > statement_timestamp()
                                               )
                                            OR seen.moved THEN NULL
                                       WHEN arrived.verdict & 1 <> 0
                                       THEN CASE WHEN arrived.key IN (SELECT fallen.key FROM fallen) THEN NULL
                                                 WHEN blocked.missing > arrived.signals
                                                      AND arrived.key IN (SELECT threatened.key FROM threatened)
                                                 THEN NULL
                                                 ELSE 8::smallint /* skipped */
                                            END
                                       WHEN arrived.verdict & 2 <> 0 THEN 0::smallint /* completed */
                                       WHEN arrived.verdict & 4 <> 0
                                       THEN CASE WHEN blocked.aborted + arrived.aborted = 0
                                                      OR (SELECT tasks.on_abort
                                                          FROM stint.tasks
                                                          WHERE tasks.key = arrived.key) <> 0
                                                 THEN 8::smallint /* skipped */
                                            END
                                       WHEN (arrived.orphans > 0 OR arrived.verdict & 16 <> 0) AND (
                                           SELECT count(*)
                                           FROM (
                                               SELECT
                                               FROM stint.edges
                                               WHERE edges.run = arrived.key
                                                 AND starts_with((SELECT tasks.id FROM stint.tasks
                                                                  WHERE tasks.key = edges.after), E'\x73tint.gate/')
                                                     IS NOT true
                                               LIMIT arrived.orphans + 1
                                           ) AS edge
                                       ) <= arrived.orphans THEN 7::smallint /* deleted */
                                       WHEN (SELECT tasks.action
                                             FROM stint.tasks
                                             WHERE tasks.key = arrived.key) = E'\x73tint.Spontaneous'
                                            AND blocked.not_before > statement_timestamp() IS NOT true
                                       THEN 0::smallint /* completed */
                                   END AS cause
                            OFFSET 0
                        ) AS judged
                    ) AS step
                ), ended AS MATERIALIZED (
                    SELECT walk.* FROM walk WHERE walk.cause IS NOT NULL
                ), recorded AS (
                    INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor, status)
                    SELECT ended.key, ended.key, ended.claim, ended.tries, ended.cause, ended.actor, ended.status
                    FROM ended
                    WHERE ended.cause <> 7 /* deleted */
                ), joined AS (
                    INSERT INTO stint.joined (key, completed, aborted)
                    SELECT ended.key, least(ended.had_completed::bigint + ended.completed, 2147483647),
                           least(ended.had_aborted::bigint + ended.aborted, 2147483647)
                    FROM ended
                    WHERE ended.cause = 0 /* completed */
                ), definition AS (
                    DELETE FROM stint.tasks
                    WHERE tasks.key = ANY (ARRAY(SELECT ended.key FROM ended WHERE ended.cause = 7 /* deleted */))
                    RETURNING tasks.key, tasks.deadline
                ), limited AS (
                    DELETE FROM stint.deadlines
                    USING (
                        SELECT deadline.tid
                        FROM definition
                        CROSS JOIN LATERAL (
                            SELECT deadlines.ctid AS tid
                            FROM stint.deadlines
                            WHERE deadlines.deadline = definition.deadline AND deadlines.key = definition.key
                            OFFSET 0
                        ) AS deadline
                    ) AS limits
                    WHERE deadlines.ctid = limits.tid
                ), counted AS MATERIALIZED (
                    SELECT target.key, max(target.claim) AS claim, max(target.tries) AS tries,
                           max(target.status) AS status, max(target.not_before) AS not_before,
                           CASE WHEN bit_or(target.verdict) & 2 = 0
                                THEN max(target.missing) - sum(target.signals)
                                ELSE 0
                           END AS missing,
                           least(max(target.had_completed) + sum(target.completed), 2147483647) AS completed,
                           least(max(target.had_aborted) + sum(target.aborted), 2147483647) AS aborted,
                           sum(target.signals) AS signals, sum(target.completed) AS told_completed,
                           sum(target.aborted) AS told_aborted, sum(target.orphans) AS orphans,
                           bool_or(target.moved) AS moved, bit_or(target.verdict) AS verdict,
                           bool_or(target.falls) IS true AS doomed
                    FROM (
                        SELECT walk.key, walk.claim, walk.tries, walk.status, walk.not_before, walk.missing,
                               walk.had_completed, walk.had_aborted, walk.signals, walk.completed, walk.aborted,
                               walk.orphans, walk.moved, walk.verdict, NULL::boolean AS falls
                        FROM walk
                        WHERE walk.cause IS NULL AND NOT walk.kept
                        UNION ALL
                        SELECT fallen.key, NULL, fallen.tries, fallen.status, NULL, 0, 0, 0, 0, 0, 0, 0, false, 0,
                               NOT fallen.unmoved
                        FROM fallen
                    ) AS target
                    GROUP BY target.key
                    HAVING bool_and(target.falls) IS NOT false AND bit_or(target.verdict) & 8 = 0
                    ORDER BY target.key
                ), judged AS MATERIALIZED (
                    SELECT counted.*, task.action, task.priority, task.deadline, timing.early,
                           CASE WHEN counted.doomed THEN 3 /* a predecessor */
                                WHEN next.decides OR counted.missing <> 0 THEN NULL
                                WHEN counted.verdict & 6 = 4
                                THEN CASE WHEN counted.aborted > 0 AND task.on_abort = 0
                                          THEN 3 /* a predecessor */
                                          ELSE 8 /* skipped */
                                     END
                                WHEN task.action = E'\x73tint.Spontaneous' AND NOT timing.early THEN 0 /* completed */
                           END AS cause, next.decides AS later
                    FROM counted
                    CROSS JOIN LATERAL (
                        SELECT tasks.action, tasks.priority, tasks.deadline, tasks.on_abort
                        FROM stint.tasks
                        WHERE tasks.key = counted.key
                        OFFSET 0
                    ) AS task
                    CROSS JOIN LATERAL (
                        SELECT coalesce(counted.not_before > statement_timestamp(), false)
                    ) AS timing (early)
                    CROSS JOIN LATERAL (
                        SELECT NOT counted.doomed
                               AND CASE
                                       WHEN counted.verdict & 1 <> 0 OR counted.moved AND counted.missing = 0
                                       THEN true
                                       WHEN counted.orphans = 0 OR counted.missing <> 0
                                            OR counted.verdict & 22 <> 0 THEN false
                                       ELSE (
                                           SELECT count(*)
                                           FROM (
                                               SELECT
                                               FROM stint.edges
                                               WHERE edges.run = counted.key
                                                 AND starts_with((SELECT tasks.id FROM stint.tasks
                                                                  WHERE tasks.key = edges.after), E'\x73tint.gate/')
                                                     IS NOT true
                                               LIMIT counted.orphans + 1
                                           ) AS edge
                                       ) <= counted.orphans
                                   END
                        OFFSET 0
                    ) AS next (decides)
                ), outgoing AS (
                    DELETE FROM stint.edges
                    USING (
                        SELECT edge.tid
                        FROM ended
                        CROSS JOIN LATERAL (
                            SELECT edges.ctid AS tid, edges.run
                            FROM stint.edges
                            WHERE edges.after = ended.key AND edges.accepts IS NULL
                            OFFSET 0
                        ) AS edge
                        WHERE ended.cause IN (5 /* replaced */, 7 /* deleted */)
                          AND (ended.cause = 7 /* deleted */ OR edge.run NOT IN (
                              SELECT judged.key FROM judged WHERE judged.cause IS NULL
                          ))
                    ) AS outgoing
                    WHERE edges.ctid = outgoing.tid
                ), incoming AS (
                    DELETE FROM stint.edges
                    WHERE edges.run = ANY (ARRAY(
                        SELECT ended.key FROM ended WHERE ended.cause IN (5 /* replaced */, 7 /* deleted */)
                    ))
                ), waiting AS (
                    INSERT INTO stint.blocked (key, missing, completed, aborted)
                    SELECT judged.key, judged.missing, judged.completed, judged.aborted
                    FROM judged
                    WHERE judged.missing <> 0 AND judged.cause IS NULL AND NOT judged.later
                    ON CONFLICT (key) DO UPDATE
                    SET missing = excluded.missing, completed = excluded.completed, aborted = excluded.aborted
                ), unblocked AS (
                    DELETE FROM stint.blocked
                    WHERE blocked.key = ANY (ARRAY(
                        SELECT judged.key
                        FROM judged
                        WHERE judged.missing = 0 AND NOT judged.later OR judged.cause IS NOT NULL
                        UNION ALL
                        SELECT ended.key
                        FROM ended
                    ))
                ), queued AS (
                    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority,
                                             deadline, status, ready_at)
                    SELECT min(alike.key), max(alike.key), alike.claim, alike.tries, alike.completed,
                           alike.aborted, alike.action, alike.priority, alike.deadline, alike.status,
                           statement_timestamp()
                    FROM (
                        SELECT judged.*,
                               CASE WHEN judged.tries > 0 OR judged.claim IS NOT NULL
                                         OR judged.deadline IS NOT NULL
                                    THEN judged.key
                                    ELSE judged.key - row_number() OVER (
                                        PARTITION BY judged.key >> 6, judged.action, judged.priority,
                                                     judged.completed, judged.aborted,
                                                     judged.tries > 0 OR judged.claim IS NOT NULL
                                                         OR judged.deadline IS NOT NULL
                                        ORDER BY judged.key)
                               END AS island
                        FROM judged
                        WHERE judged.missing = 0 AND judged.cause IS NULL AND NOT judged.early
                          AND NOT judged.later
                    ) AS alike
                    GROUP BY alike.key >> 6, alike.island, alike.claim, alike.tries, alike.completed,
                             alike.aborted, alike.action, alike.priority, alike.deadline, alike.status
                    ORDER BY min(alike.key)
                ), later AS (
                    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
                    SELECT judged.key, judged.not_before, judged.claim, judged.tries, judged.completed,
                           judged.aborted, judged.status
                    FROM judged
                    WHERE judged.missing = 0 AND judged.cause IS NULL AND judged.early AND NOT judged.later
                ), onward AS (
                    INSERT INTO stint.settling (batch, round, key, cause, tries, completed, aborted, status,
                                                signals, verdict)
                    SELECT finishing.batch::bigint, finishing.round::integer - 1, judged.key, judged.cause,
                           CASE WHEN NOT judged.later THEN judged.tries END,
                           CASE WHEN judged.later THEN judged.told_completed ELSE judged.completed END,
                           CASE WHEN judged.later THEN judged.told_aborted ELSE judged.aborted END,
                           CASE WHEN NOT judged.later THEN judged.status END,
                           CASE WHEN judged.later THEN judged.signals END,
                           CASE WHEN judged.later
                                THEN judged.verdict | CASE WHEN judged.orphans > 0 THEN 16 ELSE 0 END
                           END
                    FROM judged
                    WHERE judged.cause IS NOT NULL OR judged.later
                )
                SELECT DISTINCT judged.action AS ready, NULL::bigint AS finished, NULL::bigint AS count
                FROM judged
                WHERE judged.missing = 0 AND judged.cause IS NULL AND NOT judged.later
                UNION ALL
                SELECT NULL, ended.key, NULL
                FROM ended
                WHERE (SELECT tasks.post_result FROM stint.tasks WHERE tasks.key = ended.key) IS NOT false
                UNION ALL
                SELECT NULL, NULL, counted.count
                FROM (SELECT count(*) FROM ended WHERE ended.cause = NULL::smallint) AS counted
                WHERE NULL::smallint IS NOT NULL
            LOOP
                ready := ready || changed.ready;
                finished := finished || changed.finished;
            END LOOP;
            round := round - 1;
        END LOOP;
        EXIT WHEN settled;
        CONTINUE WHEN attempt = 0;
        FOR judged IN
            -- name: explain_refusals
            SELECT named.place,
                   (SELECT true FROM stint.tasks WHERE tasks.id = named.id) IS NOT NULL AS known,
                   (SELECT span.cause
                    FROM (
                        SELECT finished.hi, finished.claim, finished.cause
                        FROM stint.finished
                        WHERE finished.lo BETWEEN named.key >> 10 << 10 AND named.key
                        ORDER BY finished.lo DESC
                        LIMIT 1
                    ) AS span
                    WHERE span.hi >= named.key AND span.claim = named.claim
                      AND (SELECT true FROM stint.tasks WHERE tasks.key = named.key)
                   ) AS cause,
                   coalesce(
                       (SELECT true
                        FROM stint.ready
                        WHERE ready.lo = named.key AND ready.claim = named.claim AND NOT ready.late),
                       (SELECT true
                        FROM stint.scheduled
                        WHERE scheduled.key = named.key AND scheduled.claim = named.claim),
                       (SELECT true
                        FROM stint.blocked
                        WHERE blocked.key = named.key AND blocked.claim = named.claim),
                       false
                   ) AS again,
                   coalesce(
                       (SELECT true
                        FROM (
                            SELECT leased.hi, leased.claim
                            FROM stint.leased
                            WHERE leased.lo BETWEEN named.key >> 10 << 10 AND named.key
                            ORDER BY leased.lo DESC
                            LIMIT 1
                        ) AS span
                        WHERE span.hi >= named.key AND span.claim = named.claim),
                       false
                   ) AS owned,
                   (SELECT true
                    FROM stint.finished
                    WHERE finished.lo = named.key AND finished.claim = ~named.claim) IS NOT NULL AS unsaid
            FROM unnest(finishing.keys::bigint[], finishing.claims::bigint[], finishing.ids::text[])
                WITH ORDINALITY AS named (key, claim, id, place)
        LOOP
            IF judged.owned OR judged.unsaid AND outcome = 2 THEN
                NULL; -- the token is good after all
            ELSIF NOT judged.known THEN
                RAISE EXCEPTION 'invalid performance token: task not found: "%"', id
                    USING ERRCODE = 'STI05';
            ELSIF judged.again AND outcome = 2 OR judged.cause = outcome AND outcome < 2
                  OR judged.cause IN (2 /* tries */, 9 /* lost */) AND outcome = 2 THEN
                RAISE EXCEPTION 'task was already returned with this outcome: "%"', id
                    USING ERRCODE = 'STI06',
                          HINT = 'An earlier transaction with this token was committed.';
            ELSE
                RAISE EXCEPTION 'invalid performance token: "%"', id
                    USING ERRCODE = 'STI05',
                          HINT = 'Another owner has the task, or it has ended: roll back.';
            END IF;
        END LOOP;
    END LOOP;
    IF NOT settled THEN
        RAISE EXCEPTION 'task changed its state at every attempt: "%"', id USING ERRCODE = '40001';
    END IF;

    IF coalesce(notify, true) THEN
        -- A payload has 8 kB at most.
        SELECT array_agg(message.topic), array_agg(message.payload)
        INTO topics, payloads
        FROM (
            SELECT DISTINCT 'ready ' || named.action AS topic, 'ready ' || named.action AS payload
            FROM unnest(finishing.ready) AS named (action)
            WHERE named.action IS NOT NULL
            UNION ALL
            SELECT 'finished', 'finished ' || string_agg(named.key::text, ' ')
            FROM unnest(finishing.finished) WITH ORDINALITY AS named (key, place)
            WHERE named.key IS NOT NULL
            GROUP BY named.place / 300
        ) AS message;
        FOR changed IN
            -- name: notify
            SELECT message.payload, pg_notify('stint'::text, message.payload),
                   CASE WHEN false::boolean THEN set_config('synchronous_commit', 'off', true) END
            FROM unnest(finishing.topics::text[], finishing.payloads::text[]) AS message (topic, payload)
            WHERE (
                SELECT true
                FROM stint.sessions
                WHERE message.topic OPERATOR(pg_catalog.=) ANY (sessions.topics)
                  AND sessions.id OPERATOR(pg_catalog.<>) 0::bigint
                LIMIT 1
            )
        LOOP END LOOP;
    END IF;
END
$finish_task$;

COMMENT ON FUNCTION stint.finish_task IS
    'Ends a task of Stint in the transaction at hand, for the owner that has its token.';

REVOKE ALL ON FUNCTION stint.finish_task FROM PUBLIC;

-- The function acts as the owner of the tables, whoever runs this file. Its token is the right to
-- end a task: so those may call it who may call add_task, and nothing else.
DO $finish_task$
BEGIN
    EXECUTE (
        SELECT pg_catalog.format('ALTER FUNCTION %s OWNER TO %s',
                                 'stint.finish_task'::pg_catalog.regproc,
                                 pg_class.relowner::pg_catalog.regrole)
        FROM pg_catalog.pg_class
        WHERE pg_class.oid OPERATOR(pg_catalog.=) 'stint.tasks'::pg_catalog.regclass
    );
    IF EXISTS (
        SELECT
        FROM pg_catalog.pg_roles
        WHERE pg_roles.rolname::pg_catalog.text OPERATOR(pg_catalog.=) 'stint_enqueuer'
    ) THEN
        GRANT EXECUTE ON FUNCTION stint.finish_task TO stint_enqueuer;
    END IF;
END
$finish_task$;
