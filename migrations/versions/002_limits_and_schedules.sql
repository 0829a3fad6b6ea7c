-- Limits of actions and of their keys, which the statements that hand out obey, schedules, steps,
-- the history of tries, losses, tasks that fail fast, who has changed what, calls that are
-- repeated, and what has happened in each minute.
-- limits.md, schedules.md, steps.md, history.md and changes.md in docs/guides describe them.

-- Nothing here rewrites a table, or reads all of tasks, since others wait meanwhile: columns are
-- added as nulls, so the rows that are there need no check.
--
-- What is there is locked first, by statements that take no time, and ready last, since its rows
-- are read. If the lock on the view came after that, those who had begun to look at it would hold
-- it, and wait for a table that is locked here: each try would end as a deadlock. RESET changes
-- nothing. (LOCK TABLE would lock all tables that the view reads, too.)
ALTER VIEW {{.schema}}.task_states RESET (security_barrier);

-- headers is an object whose values are texts, or null: most tasks have none, and pay nothing. So
-- with cost: null is 1.
ALTER TABLE {{.schema}}.tasks ADD limit_key text COLLATE "C",
    ADD headers jsonb,
    ADD cost integer,
    ADD CONSTRAINT tasks_limit_key_length CHECK (octet_length(limit_key) BETWEEN 1 AND 255)
        NOT VALID,
    ADD CONSTRAINT tasks_headers_length CHECK (octet_length(headers::text) <= 16384) NOT VALID,
    ADD CONSTRAINT tasks_cost CHECK (cost BETWEEN 2 AND 1000000000) NOT VALID;

-- Of a conditional edge, accepts says which ends of the predecessor meet the condition: 1
-- completed, 2 aborted, 4 skipped; with 8 it is one of those of which the first to be met starts
-- the dependent, whose edges all have that. results are what a completed predecessor must have
-- returned, if that matters. Both are null of an ordinary edge. A task whose condition cannot be
-- met any more is finished with the cause 8, skipped; one that several owners in a row have lost,
-- with the cause 9, lost.
ALTER TABLE {{.schema}}.edges ADD accepts smallint,
    ADD results bytea[],
    ADD CONSTRAINT edges_accepts_known CHECK (accepts BETWEEN 1 AND 15) NOT VALID;
ALTER TABLE {{.schema}}.finished DROP CONSTRAINT finished_cause_known,
    ADD CONSTRAINT finished_cause_known CHECK (cause BETWEEN 0 AND 6 OR cause IN (8, 9)) NOT VALID;

-- A task ends when its row is made, not when the statement began: by then the transaction holds its
-- lock on the table, so whoever follows the ends can see that there may be one (list_ends).
-- owned_at is when the owner who has returned it was given it: null of those that ended otherwise.
ALTER TABLE {{.schema}}.finished ALTER finished_at SET DEFAULT clock_timestamp(),
    ADD owned_at timestamptz,
    ADD ready_at timestamptz;

-- verdict says what the signals for a task decide, by the conditions of their edges: 1 one is not
-- met, so that the task is skipped; of those of which the first starts the task, 2 one is met, 4
-- one is not. Null is 0.
ALTER TABLE {{.schema}}.settling ADD verdict smallint,
    DROP CONSTRAINT settling_cause_known,
    ADD CONSTRAINT settling_cause_known CHECK (cause BETWEEN 0 AND 9);

-- The action of tasks that were handed out under limits, and count towards them. (A column called
-- action would break statements of the release for version 1, which join all columns of leased with
-- that of the task.)
ALTER TABLE {{.schema}}.leased ADD ready_at timestamptz,
    ADD limited_action text COLLATE "C";

-- pruned_to is when the youngest of the tasks ended that were pruned so far: somebody who follows
-- the ends, and has not come as far, may have missed some. behind is null where nobody tells any
-- more.
ALTER TABLE {{.schema}}.pruning ADD pruned_to timestamptz,
    ALTER behind DROP NOT NULL;

-- The schema version of the release that a session belongs to: releases before this one do not know
-- of limits.
ALTER TABLE {{.schema}}.sessions ADD schema_version integer NOT NULL DEFAULT 1;

-- limit_key is the key of all tasks of the span, if it is known that they have the same; empty if
-- none of them has one. A row with a negative position is parked: it waits for room below a limit
-- of its key, where no hand-out looks. The sign bit comes on top of the position that it had, so
-- that the rank orders the parked rows of a key as the queue did.
--
-- ready_at is when the tasks became ready: null of those that have been ready since they were
-- inserted. A task takes it along to its end.
ALTER TABLE {{.schema}}.ready ADD ready_at timestamptz,
    ADD limit_key text COLLATE "C",
    DROP CONSTRAINT ready_position,
    ADD CONSTRAINT ready_position CHECK (position >> 47 IN (0, -65536));
CREATE INDEX ready_parked ON {{.schema}}.ready (action, limit_key, rank, hi) WHERE position < 0;

CREATE INDEX leased_limited ON {{.schema}}.leased (limited_action) INCLUDE (lo, hi)
    WHERE limited_action IS NOT NULL;

-- One row per action that has limits, is paused, or of which a key is paused. tokens are those of
-- the rate as of refilled_at, fewer than none if by_cost: rates count the costs of tasks then, and
-- a task is handed out as long as there is one token. Whoever hands out under a limit of the whole
-- action locks its row. Room is left for new versions.
CREATE TABLE {{.schema}}.limits (
    set_at      timestamptz      NOT NULL DEFAULT statement_timestamp(),
    paused_at   timestamptz,
    refilled_at timestamptz      NOT NULL DEFAULT statement_timestamp(),
    tokens      double precision NOT NULL DEFAULT 0,
    rate_per    interval,
    key_per     interval,
    concurrency integer,
    per_key     integer,
    rate_tasks  integer,
    rate_burst  integer,
    key_tasks   integer,
    key_burst   integer,
    fair        boolean          NOT NULL DEFAULT false,
    ordered     boolean          NOT NULL DEFAULT false,
    by_cost     boolean          NOT NULL DEFAULT false,
    action      text             COLLATE "C" NOT NULL,
    fair_group  text             COLLATE "C" NOT NULL DEFAULT '',

    CONSTRAINT limits_pkey          PRIMARY KEY (action),
    CONSTRAINT limits_action_length CHECK (octet_length(action) BETWEEN 1 AND 255),
    CONSTRAINT limits_signs         CHECK (concurrency > 0 AND per_key BETWEEN 1 AND 1000
        AND rate_tasks > 0 AND rate_burst > 0 AND key_tasks > 0 AND key_burst > 0),
    CONSTRAINT limits_ordered       CHECK (NOT ordered OR per_key = 1 AND NOT fair),
    CONSTRAINT limits_rate          CHECK (num_nulls(rate_tasks, rate_per, rate_burst) IN (0, 3)),
    CONSTRAINT limits_key_rate      CHECK (num_nulls(key_tasks, key_per, key_burst) IN (0, 3)),
    CONSTRAINT limits_fair_group    CHECK (octet_length(fair_group) <= 255
        AND (fair OR fair_group = ''))
) WITH (fillfactor = 50);
CREATE INDEX limits_groups ON {{.schema}}.limits (fair_group) WHERE fair_group <> '';

-- Keys with a weight among the keys of a fair action, or that are paused.
CREATE TABLE {{.schema}}.limited_keys (
    paused_at timestamptz,
    weight    integer NOT NULL DEFAULT 1,
    action    text    COLLATE "C" NOT NULL,
    limit_key text    COLLATE "C" NOT NULL,

    CONSTRAINT limited_keys_pkey       PRIMARY KEY (action, limit_key),
    CONSTRAINT limited_keys_key_length CHECK (octet_length(limit_key) BETWEEN 1 AND 255),
    CONSTRAINT limited_keys_weight     CHECK (weight BETWEEN 1 AND 1000)
);

-- The slots of the keys of an action with a limit per key. A slot is taken as long as its task is
-- owned under its claim, as leased says; a slot whose task is not is free, and so is one without a
-- row. So nothing that ends a performance has to know of it, and the primary key refuses a task too
-- many. claim_before is the claim that held the slot before.
CREATE TABLE {{.schema}}.slots (
    key          bigint  NOT NULL,
    claim        bigint  NOT NULL,
    claim_before bigint,
    slot         integer NOT NULL,
    action       text    COLLATE "C" NOT NULL,
    limit_key    text    COLLATE "C" NOT NULL,

    CONSTRAINT slots_pkey PRIMARY KEY (action, limit_key, slot),
    CONSTRAINT slots_sign CHECK (slot >= 0)
) WITH (fillfactor = 80);

-- The buckets of keys with a rate: full_at is when a bucket is full again, if nothing is handed out
-- until then; one without a row is full. wake_at is when tasks that are parked for want of a token
-- may come back. seen_at is when the bucket was seen to be full, before what was taken since; null:
-- at full_at.
CREATE TABLE {{.schema}}.key_rates (
    full_at   timestamptz NOT NULL,
    seen_at   timestamptz,
    wake_at   timestamptz,
    action    text        COLLATE "C" NOT NULL,
    limit_key text        COLLATE "C" NOT NULL,

    CONSTRAINT key_rates_pkey PRIMARY KEY (action, limit_key)
) WITH (fillfactor = 80);
CREATE INDEX key_rates_wake ON {{.schema}}.key_rates (action, wake_at) WHERE wake_at IS NOT NULL;

-- What performances have spent more than the costs of their tasks, or less (more is negative),
-- until the buckets have paid it. Whoever returns a task must not wait for those who fetch, who
-- lock the buckets; so it is noted here, and the next fetch settles it. limit_key is empty for
-- none.
CREATE TABLE {{.schema}}.spent (
    key       bigint  NOT NULL,
    claim     bigint  NOT NULL,
    more      bigint  NOT NULL,
    priority  smallint NOT NULL,
    action    text    COLLATE "C" NOT NULL,
    limit_key text    COLLATE "C" NOT NULL,

    CONSTRAINT spent_pkey PRIMARY KEY (action, key, claim)
) WITH (fillfactor = 100);

-- The keys of fair actions of which tasks are parked, which are all of them until it is their turn;
-- the key is empty for tasks without one. tier is 32,767 less the priority of the tasks. The key
-- with the lowest pass of the lowest tier is next. held says that it waits for room below a limit
-- of its own.
CREATE TABLE {{.schema}}.turns (
    pass      bigint  NOT NULL,
    tier      integer NOT NULL,
    held      boolean NOT NULL DEFAULT false,
    action    text    COLLATE "C" NOT NULL,
    limit_key text    COLLATE "C" NOT NULL,

    CONSTRAINT turns_pkey PRIMARY KEY (action, limit_key, tier)
) WITH (fillfactor = 80);
CREATE INDEX turns_order ON {{.schema}}.turns (action, held, tier, pass, limit_key);

-- What is inserted again and again. next_at is the next occurrence, null if there is none or the
-- schedule is paused; last_ids are the tasks of the last one. definition holds the tasks and what
-- becomes of occurrences that are missed or overlap: only the library reads it.
CREATE TABLE {{.schema}}.schedules (
    next_at    timestamptz,
    last_at    timestamptz,
    paused_at  timestamptz,
    changed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    starts_at  timestamptz,
    ends_at    timestamptz,
    missed     bigint      NOT NULL DEFAULT 0,
    skipped    bigint      NOT NULL DEFAULT 0,
    name       text        COLLATE "C" NOT NULL,
    spec       text        NOT NULL,
    zone       text        NOT NULL,
    last_ids   text[]      NOT NULL DEFAULT '{}',
    definition text        NOT NULL,

    CONSTRAINT schedules_pkey        PRIMARY KEY (name),
    CONSTRAINT schedules_name_length CHECK (octet_length(name) BETWEEN 1 AND 200)
) WITH (fillfactor = 50);
CREATE INDEX schedules_order ON {{.schema}}.schedules (next_at, name) WHERE next_at IS NOT NULL;

-- What steps of tasks returned (docs/guides/steps.md): the next try of the task is given it. Rows
-- of tasks that are gone are deleted by whoever maintains.
CREATE TABLE {{.schema}}.steps (
    key         bigint      NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    name        text        COLLATE "C" NOT NULL,
    result      bytea       NOT NULL,

    CONSTRAINT steps_pkey        PRIMARY KEY (key, name),
    CONSTRAINT steps_name_length CHECK (octet_length(name) BETWEEN 1 AND 255)
);

-- The SHA-256 of the keys by which external tasks can be answered. Rows of tasks that are gone are
-- deleted by whoever maintains.
CREATE TABLE {{.schema}}.answer_keys (
    key  bigint NOT NULL,
    hash bytea  NOT NULL,

    CONSTRAINT answer_keys_pkey PRIMARY KEY (key)
);

-- Tasks that have what only they need aborted when they are. settled_at is when the task ended,
-- once that has been done. shared says that others still needed some of what it waits for: if these
-- are aborted, too, nothing needs it any more.
CREATE TABLE {{.schema}}.fail_fast (
    key        bigint  NOT NULL,
    settled_at timestamptz,
    shared     boolean NOT NULL DEFAULT false,

    CONSTRAINT fail_fast_pkey PRIMARY KEY (key)
);

-- The tries of tasks that ended without ending the task, and those of which a log is kept; the
-- end of others is in finished (docs/guides/history.md). tries counts them as ready does. outcome
-- is as of return_tasks, 4 where the lease expired, 5 where somebody aborted the task, 6 where
-- its deadline passed; where finished has a row with the claim, that one counts. claim is null of
-- a task that ended while it was owned, not by its owner, and was opened again. Whoever maintains
-- deletes rows that are too many or too old, or whose task is gone.
CREATE TABLE {{.schema}}.tries (
    key      bigint      NOT NULL,
    claim    bigint,
    owned_at timestamptz,
    ended_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    tries    integer     NOT NULL,
    outcome  smallint    NOT NULL,
    actor    text        COLLATE "C" NOT NULL,
    status   text,
    log      text,

    CONSTRAINT tries_outcome_known CHECK (outcome BETWEEN 0 AND 6),
    CONSTRAINT tries_log_length    CHECK (octet_length(log) <= 16384)
);
CREATE INDEX tries_key ON {{.schema}}.tries (key);
ALTER TABLE {{.schema}}.tries REPLICA IDENTITY FULL;

-- The numbers that owners draw (draw_fence). They begin at the time, in microseconds, so that a new
-- database goes on behind another one whose sequences did not come along.
CREATE SEQUENCE {{.schema}}.fences;
SELECT setval('{{.schemaText}}.fences', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- How many owners in a row have lost a task: their lease expired, or their process was gone. tries
-- is that of the last of them; where the next one to lose it has not the next number, somebody has
-- returned it in between, and the row counts no more. ended_at is when the task was aborted for
-- it. Rows of tasks that are gone are deleted by whoever prunes.
CREATE TABLE {{.schema}}.losses (
    key      bigint   NOT NULL,
    ended_at timestamptz,
    tries    integer  NOT NULL,
    losses   smallint NOT NULL,

    CONSTRAINT losses_pkey PRIMARY KEY (key)
);
-- finished_failed does not hold tasks that were lost: to make it anew would read all of finished.
CREATE INDEX losses_ended ON {{.schema}}.losses (ended_at) WHERE ended_at IS NOT NULL;

-- Who has changed tasks or settings, what, when and why, for callers that say who they are: a row
-- for each action of the tasks. It outlives the tasks. number is random. items is how many tasks,
-- keys or schedules were changed, and names are those of the first ones; others is how many tasks
-- changed with them, in one row of a call.
CREATE TABLE {{.schema}}.changes (
    number     bigint      NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    items      integer     NOT NULL DEFAULT 0,
    others     integer     NOT NULL DEFAULT 0,
    verb       text        COLLATE "C" NOT NULL,
    author     text        COLLATE "C" NOT NULL,
    action     text        COLLATE "C",
    reason     text,
    detail     text,
    names      text[]      COLLATE "C" NOT NULL DEFAULT '{}',

    CONSTRAINT changes_pkey        PRIMARY KEY (number),
    CONSTRAINT changes_verb_length CHECK (octet_length(verb) BETWEEN 1 AND 255),
    CONSTRAINT changes_text_length CHECK (octet_length(author) <= 1024
        AND octet_length(reason) <= 4096 AND octet_length(detail) <= 16384)
) WITH (fillfactor = 90);
-- number + 0, for the reason that scheduled_order gives.
CREATE INDEX changes_order ON {{.schema}}.changes (changed_at, (number + 0));

-- The tasks of these rows, by their IDs, since a deleted task has nothing else left.
CREATE TABLE {{.schema}}.changed_tasks (
    number bigint NOT NULL,
    id     text   COLLATE "C" NOT NULL,

    CONSTRAINT changed_tasks_pkey PRIMARY KEY (id, number)
);
CREATE INDEX changed_tasks_number ON {{.schema}}.changed_tasks (number);

-- The responses to calls of a service that have changed something, for some minutes: a call that is
-- repeated, since its response was lost, gets the same. call is a hash of who has called what, with
-- which key.
CREATE TABLE {{.schema}}.calls (
    call        uuid        NOT NULL,
    answered_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    response    bytea       NOT NULL,

    CONSTRAINT calls_pkey PRIMARY KEY (call)
);
CREATE INDEX calls_order ON {{.schema}}.calls (answered_at);

-- What has happened in each minute of the last day, from since until until, of an action, and of
-- all together in the row whose action is empty. tries and retries are null where they are not
-- known; all_tries and all_retries are what action_stats held at the end, for the next row.
-- completed and failed are tasks that have ended, ready those that waited at the end. median and
-- p95 are of the times from insertion to completion, wait_... of those from when a task became
-- ready until it was handed out, run_... from there to completion. Rows are never updated; whoever
-- prunes deletes old ones.
CREATE TABLE {{.schema}}.minutes (
    minute      timestamptz NOT NULL,
    since       timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    all_tries   bigint      NOT NULL,
    all_retries bigint      NOT NULL,
    tries       bigint,
    retries     bigint,
    completed   bigint      NOT NULL,
    failed      bigint      NOT NULL,
    ready       bigint      NOT NULL,
    oldest      interval,
    median      interval,
    p95         interval,
    wait_median interval,
    wait_p95    interval,
    run_median  interval,
    run_p95     interval,
    estimated   boolean     NOT NULL,
    action      text        COLLATE "C" NOT NULL,

    CONSTRAINT minutes_pkey PRIMARY KEY (minute, action)
);

-- Where the tasks belong, by which a copy is told from the original
-- (docs/design/adr/0040-a-copy-never-acts.md). Stores write rows here, each in a transaction of its
-- own, and never update them: written_by is the transaction that wrote the row, which is its xmin
-- as long as nothing but PostgreSQL's own files is copied, and database_id is the pg_database.oid.
-- One row might have the same xmin in a copy by chance. Two cannot: COPY gives all rows of a table
-- the same. There is no key, so that nothing that writes tables anew by their keys takes this one.
-- environment is what a store has called the environment of the database.
CREATE TABLE {{.schema}}.origin (
    written_by  xid  NOT NULL,
    database_id oid  NOT NULL,
    environment text COLLATE "C",

    CONSTRAINT origin_environment_length CHECK (octet_length(environment) BETWEEN 1 AND 255)
);
ALTER TABLE {{.schema}}.origin REPLICA IDENTITY FULL;

-- The tasks that hold their keys, where the tasks of a key are in strict order: those with a slot
-- that have not finished, whether they are in progress or not. OFFSET 0 is a fence: each row is
-- looked up by its index.
CREATE VIEW {{.schema}}.holders AS
SELECT slots.action, slots.limit_key, slots.key, task.max_tries
FROM {{.schema}}.slots
CROSS JOIN LATERAL (
    SELECT
    FROM {{.schema}}.limits
    WHERE limits.action = slots.action AND limits.ordered
    OFFSET 0
) AS ordered
CROSS JOIN LATERAL (
    -- A task that was given another key has let go of this one.
    SELECT tasks.max_tries
    FROM {{.schema}}.tasks
    WHERE tasks.key = slots.key AND tasks.limit_key = slots.limit_key
    OFFSET 0
) AS task
WHERE (
    SELECT finished.hi >= slots.key
    FROM {{.schema}}.finished
    WHERE finished.lo BETWEEN slots.key >> 10 << 10 AND slots.key
    ORDER BY finished.lo DESC
    LIMIT 1
) IS NOT TRUE;

CREATE OR REPLACE VIEW {{.schema}}.task_states AS
SELECT task.key, task.inserted_at, task.deadline, task.max_tries, task.priority, task.on_abort,
       task.post_result, task.id, task.action, task.body, state.state, state.tries, state.actor,
       state.until, state.owned_at, state.status, state.progress, state.result, task.limit_key,
       task.headers, task.cost
FROM {{.schema}}.tasks AS task
CROSS JOIN LATERAL (
    SELECT (10 + finished.cause)::smallint AS state, finished.tries, finished.actor,
           finished.finished_at AS until, finished.owned_at, finished.status,
           NULL::real AS progress, finished.result
    FROM (
        SELECT finished.*
        FROM {{.schema}}.finished
        WHERE finished.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS finished
    WHERE finished.hi >= task.key
    UNION ALL
    SELECT 3, leased.tries, lease.actor, lease.deadline, lease.owned_at, leased.status,
           leased.progress, NULL
    FROM (
        SELECT leased.*
        FROM {{.schema}}.leased
        WHERE leased.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY leased.lo DESC
        LIMIT 1
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor, leases.deadline, leases.owned_at
        FROM {{.schema}}.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
        OFFSET 0 -- a fence: looked up by the index, whatever the statistics
    ) AS lease
    WHERE leased.hi >= task.key
    UNION ALL
    SELECT 2, ready.tries, NULL, NULL, NULL, ready.status, NULL, NULL
    FROM (
        SELECT ready.*
        FROM {{.schema}}.ready
        WHERE ready.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS ready
    WHERE ready.hi >= task.key
    UNION ALL
    SELECT 1, scheduled.tries, NULL, scheduled.not_before, NULL, scheduled.status, NULL, NULL
    FROM {{.schema}}.scheduled
    WHERE scheduled.key = task.key
    UNION ALL
    SELECT 0, blocked.tries, NULL, blocked.not_before, NULL, blocked.status, NULL, NULL
    FROM {{.schema}}.blocked
    WHERE blocked.key = task.key
) AS state;

ALTER TABLE {{.schema}}.limits SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.key_rates SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.spent SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.turns SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.slots SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.schedules SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.steps SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.answer_keys SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.fail_fast SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.tries SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.losses SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.changes SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.changed_tasks SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.calls SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.minutes SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

---- create above / drop below ----

DROP VIEW {{.schema}}.task_states, {{.schema}}.holders;
-- Older releases know neither conditions nor skipped tasks: these are as if aborted because of a
-- predecessor.
UPDATE {{.schema}}.finished SET cause = 3 WHERE cause = 8;
-- Lost ones are as if they had no tries left.
UPDATE {{.schema}}.finished SET cause = 2 WHERE cause = 9;
ALTER TABLE {{.schema}}.finished ALTER finished_at SET DEFAULT statement_timestamp(),
    DROP COLUMN owned_at,
    DROP COLUMN ready_at,
    DROP CONSTRAINT finished_cause_known,
    ADD CONSTRAINT finished_cause_known CHECK (cause BETWEEN 0 AND 6);
ALTER TABLE {{.schema}}.edges DROP COLUMN accepts, DROP COLUMN results;
DELETE FROM {{.schema}}.settling WHERE cause > 7;
ALTER TABLE {{.schema}}.settling DROP COLUMN verdict,
    DROP CONSTRAINT settling_cause_known,
    ADD CONSTRAINT settling_cause_known CHECK (cause BETWEEN 0 AND 7);
-- There are no limits then that older releases would not obey.
UPDATE {{.schema}}.supported SET since = 1 WHERE since = 2;
-- Parked tasks go back to where they were in the queue.
UPDATE {{.schema}}.ready SET position = position & 9223372036854775807 WHERE position < 0;
DROP INDEX {{.schema}}.ready_parked;
ALTER TABLE {{.schema}}.ready DROP CONSTRAINT ready_position,
    ADD CONSTRAINT ready_position CHECK (position >> 47 = 0);
ALTER TABLE {{.schema}}.sessions DROP COLUMN schema_version;
DELETE FROM {{.schema}}.pruning WHERE behind IS NULL;
ALTER TABLE {{.schema}}.pruning DROP COLUMN pruned_to, ALTER behind SET NOT NULL;
DROP INDEX {{.schema}}.leased_limited;
ALTER TABLE {{.schema}}.leased DROP COLUMN limited_action, DROP COLUMN ready_at;
DROP TABLE {{.schema}}.origin, {{.schema}}.minutes, {{.schema}}.calls, {{.schema}}.changed_tasks,
    {{.schema}}.changes,
    {{.schema}}.fail_fast, {{.schema}}.losses, {{.schema}}.tries,
    {{.schema}}.answer_keys, {{.schema}}.steps,
    {{.schema}}.schedules,
    {{.schema}}.spent, {{.schema}}.key_rates, {{.schema}}.turns, {{.schema}}.slots,
    {{.schema}}.limited_keys, {{.schema}}.limits;
DROP SEQUENCE {{.schema}}.fences;
ALTER TABLE {{.schema}}.ready DROP COLUMN limit_key, DROP COLUMN ready_at;
ALTER TABLE {{.schema}}.tasks DROP COLUMN limit_key, DROP COLUMN headers,
    DROP COLUMN cost;
CREATE VIEW {{.schema}}.task_states AS
SELECT task.*, state.state, state.tries, state.actor, state.until, state.owned_at, state.status,
       state.progress, state.result
FROM {{.schema}}.tasks AS task
CROSS JOIN LATERAL (
    SELECT (10 + finished.cause)::smallint AS state, finished.tries, finished.actor,
           finished.finished_at AS until, NULL::timestamptz AS owned_at, finished.status,
           NULL::real AS progress, finished.result
    FROM (
        SELECT finished.*
        FROM {{.schema}}.finished
        WHERE finished.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS finished
    WHERE finished.hi >= task.key
    UNION ALL
    SELECT 3, leased.tries, lease.actor, lease.deadline, lease.owned_at, leased.status,
           leased.progress, NULL
    FROM (
        SELECT leased.*
        FROM {{.schema}}.leased
        WHERE leased.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY leased.lo DESC
        LIMIT 1
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor, leases.deadline, leases.owned_at
        FROM {{.schema}}.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
        OFFSET 0 -- a fence: looked up by the index, whatever the statistics
    ) AS lease
    WHERE leased.hi >= task.key
    UNION ALL
    SELECT 2, ready.tries, NULL, NULL, NULL, ready.status, NULL, NULL
    FROM (
        SELECT ready.*
        FROM {{.schema}}.ready
        WHERE ready.lo BETWEEN task.key >> 10 << 10 AND task.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS ready
    WHERE ready.hi >= task.key
    UNION ALL
    SELECT 1, scheduled.tries, NULL, scheduled.not_before, NULL, scheduled.status, NULL, NULL
    FROM {{.schema}}.scheduled
    WHERE scheduled.key = task.key
    UNION ALL
    SELECT 0, blocked.tries, NULL, blocked.not_before, NULL, blocked.status, NULL, NULL
    FROM {{.schema}}.blocked
    WHERE blocked.key = task.key
) AS state;
