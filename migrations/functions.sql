-- The function add_task inserts one task in the caller's transaction. It is for programs in other
-- languages than Go, for psql and for triggers. It is no migration, and nothing in Stint calls it:
-- who wants it runs this file.
--
-- Run it in one transaction, as the owner of the tables or as an administrator, once the schema has
-- been migrated, and again after each upgrade: it may be run any number of times.
-- docs/guides/sql.md shows calls, and says who may call the function.
--
-- For another schema, or a second one on the same server, replace every "stint" in this file, as in
-- roles.sql, or let the command print it: stint migrate functions --print-sql --schema other

-- One at a time: two that replace a function at once would collide.
SELECT pg_catalog.pg_advisory_xact_lock(6153097412580361);

-- There is one function for all callers. A second one of the same name would make calls ambiguous.
-- Hence a body is text or bytes by two parameters, and integers are bigint, into which PostgreSQL
-- turns those of other sizes.
CREATE OR REPLACE FUNCTION stint.add_task(
    action      pg_catalog.text,
    body        pg_catalog.text        DEFAULT NULL,
    id          pg_catalog.text        DEFAULT NULL,
    priority    bigint                 DEFAULT 0,
    max_tries   bigint                 DEFAULT 25,
    not_before  pg_catalog.timestamptz DEFAULT NULL,
    deadline    pg_catalog.timestamptz DEFAULT NULL,
    post_result boolean                DEFAULT false,
    on_abort    pg_catalog.text        DEFAULT 'abort-too',
    body_bytes  pg_catalog.bytea       DEFAULT NULL,
    notify      boolean                DEFAULT true,
    key         pg_catalog.text        DEFAULT NULL,
    ensure      boolean                DEFAULT false,
    headers     pg_catalog.jsonb       DEFAULT NULL,
    cost        bigint                 DEFAULT NULL
)
RETURNS pg_catalog.text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $add_task$
-- Version 2 of the function, for version 2 of the schema. The command check looks for the former.
--
-- Each argument means what the field of Task with the same name means; NULL is the default. Texts
-- are compared as bytes, since the collations of the arguments are the caller's, who may mix them.
DECLARE
    task_id  text := id;
    task_key bigint;
    topic    text COLLATE "C" := 'ready ' || action;
    invalid  text;
    excess   text;
BEGIN
    IF EXISTS (SELECT FROM stint.supported WHERE supported.since > 2) THEN
        RAISE EXCEPTION 'the schema no longer works with this version of the function add_task'
            USING ERRCODE = 'STI04',
                  HINT = 'Run migrations/functions.sql of the release that migrated the schema.';
    END IF;
    invalid := CASE
        WHEN octet_length(id) = 0 THEN 'id: must not be empty; leave it out to get a random one'
        WHEN action IS NULL OR octet_length(action) = 0 THEN 'action: must not be empty'
        -- [s] keeps the name as it is where the schema has another one.
        WHEN action COLLATE "C" ~ '^[s]tint[.]Spontaneous$'
        THEN 'action: a spontaneous task needs predecessors, which add_task does not take'
        WHEN octet_length(key) = 0 THEN 'key: must not be empty; leave it out for none'
        WHEN body IS NOT NULL AND body_bytes IS NOT NULL
        THEN 'body and body_bytes: exclude each other'
        WHEN priority NOT BETWEEN -32768 AND 32767 THEN 'priority: must be -32768 to 32767'
        WHEN max_tries NOT BETWEEN -1 AND 2147483647
        THEN 'max_tries: must be -1, for no limit, or 0 to 2147483647'
        WHEN cost NOT BETWEEN 0 AND 1000000000 THEN 'cost: must be 0 to 1000000000'
        WHEN on_abort COLLATE "C" NOT IN ('abort-too', 'run-anyway')
        THEN 'on_abort: must be abort-too or run-anyway'
        WHEN extract(year FROM not_before AT TIME ZONE 'UTC') NOT BETWEEN 1 AND 9999
        THEN 'not_before: must be between the years 1 and 9999'
        WHEN extract(year FROM deadline AT TIME ZONE 'UTC') NOT BETWEEN 1 AND 9999
        THEN 'deadline: must be between the years 1 and 9999'
    END;
    IF invalid IS NOT NULL THEN
        RAISE EXCEPTION 'invalid argument: %', invalid USING ERRCODE = 'STI02';
    END IF;
    excess := CASE
        WHEN octet_length(id) > 512
        THEN format('id bytes: %s exceeds the limit of 512', octet_length(id))
        WHEN octet_length(action) > 255
        THEN format('action bytes: %s exceeds the limit of 255', octet_length(action))
        WHEN octet_length(key) > 255
        THEN format('key bytes: %s exceeds the limit of 255', octet_length(key))
        WHEN coalesce(octet_length(body), octet_length(body_bytes)) > 67108864
        THEN format('body bytes: %s exceeds the limit of 67108864',
                    coalesce(octet_length(body), octet_length(body_bytes)))
    END;
    IF excess IS NOT NULL THEN
        RAISE EXCEPTION 'too large: %', excess USING ERRCODE = 'STI03';
    END IF;
    IF headers IS NOT NULL THEN
        invalid := CASE
            WHEN jsonb_typeof(headers) <> 'object' THEN 'headers: must be an object'
            WHEN EXISTS (SELECT FROM jsonb_each(headers) AS header (name, value)
                         WHERE header.name COLLATE "C" !~ '^[a-z0-9-]{1,64}$')
            THEN 'headers: must have names of 1 to 64 of the characters a-z, 0-9 and -'
            WHEN EXISTS (SELECT FROM jsonb_each(headers) AS header (name, value)
                         WHERE jsonb_typeof(header.value) <> 'string')
            THEN 'headers: must have values that are strings'
        END;
        IF invalid IS NOT NULL THEN
            RAISE EXCEPTION 'invalid argument: %', invalid USING ERRCODE = 'STI02';
        END IF;
        excess := (
            SELECT CASE
                WHEN count(*) > 16
                THEN format('headers: %s exceed the limit of 16', count(*))
                WHEN sum(octet_length(header.name) + octet_length(header.value)) > 2048
                THEN format('headers: %s bytes of names and values exceed the limit of 2048',
                            sum(octet_length(header.name) + octet_length(header.value)))
            END
            FROM jsonb_each_text(headers) AS header (name, value)
        );
        IF excess IS NOT NULL THEN
            RAISE EXCEPTION 'too large: %', excess USING ERRCODE = 'STI03';
        END IF;
    END IF;
    IF task_id IS NULL THEN
        -- A UUID of version 7, as Go makes it: its first 48 bits are the time, so that tasks of one
        -- time lie together in the index. Two bits turn version 4 into 7.
        task_id := encode(set_bit(set_bit(overlay(
            uuid_send(gen_random_uuid())
            PLACING substring(int8send(
                floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text;
    END IF;
    -- Each call takes a block of 1,024 keys and uses the first one, so that calls share nothing but
    -- a sequence. There are 2^48 blocks: enough for 10,000 calls a second for 890 years.
    task_key := nextval('stint.blocks') << 10;

    -- These rows are those of insert_task and insert_tasks.
    INSERT INTO stint.tasks
        (key, id, action, body, priority, max_tries, deadline, on_abort, post_result,
         limit_key, headers, cost)
    VALUES (
        task_key, task_id, add_task.action,
        coalesce(add_task.body_bytes, convert_to(add_task.body, 'UTF8')),
        coalesce(add_task.priority, 0),
        CASE coalesce(add_task.max_tries, 0) WHEN 0 THEN 25 WHEN -1 THEN 0
            ELSE add_task.max_tries END,
        add_task.deadline,
        CASE WHEN add_task.on_abort = 'run-anyway' THEN 1 ELSE 0 END,
        coalesce(add_task.post_result, false),
        add_task.key,
        nullif(add_task.headers, '{}'),
        CASE WHEN add_task.cost > 1 THEN add_task.cost END
    )
    -- This waits for whoever inserts the same ID at this moment. In a transaction that is stricter
    -- than READ COMMITTED and does not see the task that has the ID, it fails to serialize.
    ON CONFLICT ON CONSTRAINT tasks_id_key DO NOTHING;
    IF NOT FOUND AND ensure THEN
        RETURN NULL; -- the task is there, as EnsureTasks says
    ELSIF NOT FOUND THEN
        RAISE EXCEPTION 'task exists: "%"', task_id
            USING ERRCODE = 'STI01',
                  HINT = 'Has an earlier call inserted it? Another task needs another id.';
    END IF;
    IF deadline IS NOT NULL THEN
        INSERT INTO stint.deadlines (deadline, key) VALUES (add_task.deadline, task_key);
    END IF;
    IF not_before > statement_timestamp() THEN
        INSERT INTO stint.scheduled (key, not_before, tries)
        VALUES (task_key, add_task.not_before, 0);
    ELSE
        INSERT INTO stint.ready (lo, hi, action, priority, deadline, tries, limit_key)
        VALUES (task_key, task_key, add_task.action, coalesce(add_task.priority, 0),
                add_task.deadline, 0, add_task.key);
    END IF;
    -- Whoever waits is woken at the commit. Where nobody waits, this only reads a small table.
    IF coalesce(notify, true) AND EXISTS (
        SELECT FROM stint.sessions WHERE topic = ANY (sessions.topics)
    ) THEN
        PERFORM pg_notify('stint', topic);
    END IF;
    RETURN task_id;
END
$add_task$;

-- CREATE FUNCTION leaves a function of version 1 alone, since that takes no key and no cost. It
-- is dropped, and who was granted it is granted this one.
DO $add_task$
DECLARE
    statement pg_catalog.text;
BEGIN
    FOR statement IN
        SELECT step.statement
        FROM pg_catalog.pg_proc AS newer
        JOIN pg_catalog.pg_proc AS older
            ON older.proname OPERATOR(pg_catalog.=) newer.proname
            AND older.pronamespace OPERATOR(pg_catalog.=) newer.pronamespace
        JOIN pg_catalog.pg_namespace
            ON pg_namespace.oid OPERATOR(pg_catalog.=) newer.pronamespace
        CROSS JOIN LATERAL (
            SELECT 1 AS place,
                   pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s%s',
                                     newer.oid::pg_catalog.regprocedure,
                                     granted.grantee::pg_catalog.regrole,
                                     CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' END)
            FROM pg_catalog.aclexplode(older.proacl) AS granted
            WHERE granted.grantee OPERATOR(pg_catalog.<>) ALL (ARRAY[0, older.proowner])
            UNION ALL
            SELECT 2, pg_catalog.format('DROP FUNCTION %s', older.oid::pg_catalog.regprocedure)
        ) AS step (place, statement)
        WHERE pg_namespace.nspname OPERATOR(pg_catalog.=) 'stint'
          AND newer.proname OPERATOR(pg_catalog.=) 'add_task'
          AND 'cost' OPERATOR(pg_catalog.=) ANY (newer.proargnames)
          AND 'cost' OPERATOR(pg_catalog.<>) ALL (older.proargnames)
        ORDER BY step.place
    LOOP
        EXECUTE statement;
    END LOOP;
END
$add_task$;

COMMENT ON FUNCTION stint.add_task IS
    'Inserts a task of Stint in the transaction at hand, and returns its ID.';

REVOKE ALL ON FUNCTION stint.add_task FROM PUBLIC;

-- The function acts as the owner of the tables, whoever runs this file. The role of those who may
-- do nothing but call it is made by roles.sql.
DO $add_task$
BEGIN
    EXECUTE (
        SELECT pg_catalog.format('ALTER FUNCTION %s OWNER TO %s',
                                 'stint.add_task'::pg_catalog.regproc,
                                 pg_class.relowner::pg_catalog.regrole)
        FROM pg_catalog.pg_class
        WHERE pg_class.oid OPERATOR(pg_catalog.=) 'stint.tasks'::pg_catalog.regclass
    );
    IF EXISTS (
        SELECT
        FROM pg_catalog.pg_roles
        WHERE pg_roles.rolname::pg_catalog.text OPERATOR(pg_catalog.=) 'stint_enqueuer'
    ) THEN
        GRANT EXECUTE ON FUNCTION stint.add_task TO stint_enqueuer;
    END IF;
END
$add_task$;
