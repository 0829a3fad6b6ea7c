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
-- settings set_planner
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
                -- run revive_tasks
                --   $1 finishing.keys
                --   $2 finishing.claims
                --   $3 NULL
                --   $4 NULL
                --   $5 true
            EXCEPTION WHEN unique_violation THEN
                GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
                IF violated <> 'leases_pkey' THEN
                    RAISE;
                END IF;
                CONTINUE; -- another task of the fetch has got the number of the lease
            END;
        END IF;
        IF shares THEN
            -- run split_leased
            --   $1 finishing.keys
            --   $2 finishing.keys
        END IF;
        IF limited THEN
            -- Tasks of fair actions and of keys with a rate are left to those who maintain, since
            -- others would wait for their turns and buckets until the caller's transaction ends.
            -- for changed in unpark_within_limits
            --   $1 finishing.keys
            --   $2 finishing.keys
            --   $3 finishing.claims
            --   $4 NULL
            --   $5 NULL
            --   $6 NULL
            --   $7 false
            --   $8 ARRAY[finishing.outcome]
            LOOP
                IF changed.limit_key = '' THEN
                    ready := ready || changed.action;
                END IF;
            END LOOP;
        END IF;
        IF outcome = 2 THEN
            -- Stores that keep a history keep this try; those that maintain prune it.
            -- run remember_tries
            --   $1 finishing.keys
            --   $2 finishing.keys
            --   $3 finishing.claims
            --   $4 '{true}'
            --   $5 ARRAY[finishing.outcome]
            --   $6 ARRAY[finishing.posts]
            --   $7 finishing.statuses
            --   $8 '{NULL}'
            --   $9 true
            --   $10 true
        END IF;
        IF spent IS NOT NULL THEN
            -- run note_spent
            --   $1 finishing.keys
            --   $2 finishing.keys
            --   $3 finishing.claims
            --   $4 ARRAY[finish_task.spent]
        END IF;
        IF attempt > 0 THEN
            -- for changed in hold_ownership
            --   $1 finishing.keys
            --   $2 finishing.claims
            LOOP END LOOP;
        END IF;
        -- The row stays until those who prune take it, also if no store keeps such tasks.
        -- for changed in return_tasks
        --   $1 finishing.keys
        --   $2 finishing.keys
        --   $3 finishing.claims
        --   $4 ARRAY[finishing.outcome]
        --   $5 ARRAY[finishing.posts]
        --   $6 finishing.statuses
        --   $7 ARRAY[finishing.content]
        --   $8 false
        --   $9 ARRAY[finishing.delay]
        --   $10 true
        --   $11 true
        --   $12 finishing.batch
        --   $13 finishing.round
        LOOP
            settled := true;
            IF changed.finished AND posts THEN
                finished := finished || changed.lo;
            END IF;
            ready := ready || changed.again;
        END LOOP;
        IF attempt > 0 AND outcome = 2 THEN
            -- for changed in note_late
            --   $1 finishing.keys
            --   $2 finishing.claims
            --   $3 finishing.statuses
            --   $4 ARRAY[finish_task.spent]
            LOOP
                settled := true;
            END LOOP;
        END IF;
        WHILE EXISTS (SELECT FROM stint.settling WHERE settling.batch = finishing.batch) LOOP
            -- for changed in lock_dependents
            --   $1 finishing.batch
            --   $2 finishing.round
            LOOP END LOOP;
            -- for changed in settle_tasks
            --   $1 finishing.batch
            --   $2 finishing.round
            --   $3 NULL
            LOOP
                ready := ready || changed.ready;
                finished := finished || changed.finished;
            END LOOP;
            round := round - 1;
        END LOOP;
        EXIT WHEN settled;
        CONTINUE WHEN attempt = 0;
        -- for judged in explain_refusals
        --   $1 finishing.keys
        --   $2 finishing.claims
        --   $3 finishing.ids
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
        -- for changed in notify
        --   $1 'stint'
        --   $2 finishing.topics
        --   $3 finishing.payloads
        --   $4 false
        --   $5 0
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
