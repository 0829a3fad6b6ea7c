-- A task's definition is written once, into tasks. What changes lives in narrow rows: an unfinished
-- task is in exactly one of blocked, scheduled, ready and leased, a finished one in finished.
--
-- Every task has a key. Keys come in blocks of 1,024, so that the tasks of one insert that are
-- alike have consecutive keys and one row of ready, leased or finished, a span, can stand for up to
-- 1,000 of them. A span lies within a block: the row that holds a key is the last one whose lo is
-- between the beginning of the block and the key, if its hi is not less.
--
-- There are no foreign keys: each would cost a lock and a lookup per task moved. The statements
-- keep the invariants, and docs/design/lifecycle.md names them.

-- Where all tables are published for logical replication, the server refuses to delete rows of a
-- table without a replica identity. It is the primary key; tables without one name all columns.
-- Where nothing is published, this costs nothing.
ALTER TABLE {{.schema}}.stint_schema_version REPLICA IDENTITY FULL;

-- The oldest version of the schema whose releases work with this one, too: so they may go on while
-- processes are replaced. A later version that they cannot work with says so here.
CREATE TABLE {{.schema}}.supported (
    since integer NOT NULL
);
INSERT INTO {{.schema}}.supported VALUES (1);
ALTER TABLE {{.schema}}.supported REPLICA IDENTITY FULL;

CREATE SEQUENCE {{.schema}}.blocks;
CREATE SEQUENCE {{.schema}}.positions;

CREATE TABLE {{.schema}}.tasks (
    key         bigint      NOT NULL,
    inserted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    deadline    timestamptz,
    max_tries   integer     NOT NULL,
    priority    smallint    NOT NULL,
    on_abort    smallint    NOT NULL,
    post_result boolean     NOT NULL,
    id          text        COLLATE "C" NOT NULL,
    action      text        COLLATE "C" NOT NULL,
    body        bytea,

    CONSTRAINT tasks_pkey             PRIMARY KEY (key),
    CONSTRAINT tasks_id_key           UNIQUE (id),
    CONSTRAINT tasks_id_length        CHECK (octet_length(id) BETWEEN 1 AND 512),
    CONSTRAINT tasks_action_length    CHECK (octet_length(action) BETWEEN 1 AND 255),
    CONSTRAINT tasks_body_length      CHECK (octet_length(body) <= 67108864),
    CONSTRAINT tasks_max_tries_sign   CHECK (max_tries >= 0),
    CONSTRAINT tasks_on_abort_known   CHECK (on_abort IN (0, 1))
);

-- A span of ready tasks: the keys lo to hi, which share everything else in the row. One that was
-- owned before is alone in its span, with the claim and the status text of that performance; late
-- says that its lease expired rather than that its owner gave it back: until somebody else owns the
-- task, the late owner, actor, may still return it (R8). A position of 0 puts it first again. rank
-- orders spans by priority, then by position.
-- completed and aborted say how the predecessors ended, here and below; null if there were none.
CREATE TABLE {{.schema}}.ready (
    position  bigint      NOT NULL DEFAULT nextval('{{.schemaText}}.positions'),
    lo        bigint      NOT NULL,
    hi        bigint      NOT NULL,
    claim     bigint,
    deadline  timestamptz,
    tries     integer     NOT NULL,
    completed integer,
    aborted   integer,
    priority  smallint    NOT NULL,
    late      boolean     NOT NULL DEFAULT false,
    action    text        COLLATE "C" NOT NULL,
    actor     text        COLLATE "C",
    status    text,
    rank      bigint      NOT NULL
        GENERATED ALWAYS AS ((32767 - priority)::bigint << 47 | position) STORED,

    CONSTRAINT ready_pkey       PRIMARY KEY (lo),
    CONSTRAINT ready_position   CHECK (position >> 47 = 0),
    CONSTRAINT ready_span       CHECK (lo <= hi AND lo >> 10 = hi >> 10),
    CONSTRAINT ready_alone      CHECK (lo = hi
        OR (claim IS NULL AND deadline IS NULL AND tries = 0))
);
-- By hi, which orders spans as lo does: an index that holds lo would be taken, and walked from end
-- to end, for look-ups by lo when the table is small.
CREATE INDEX ready_order ON {{.schema}}.ready (action, rank, hi);
-- Of those that have been owned before, for people who look for what fails.
CREATE INDEX ready_tried ON {{.schema}}.ready (tries) WHERE tries > 0;

CREATE TABLE {{.schema}}.scheduled (
    key        bigint      NOT NULL,
    not_before timestamptz NOT NULL,
    claim      bigint,
    tries      integer     NOT NULL,
    completed  integer,
    aborted    integer,
    status     text,

    CONSTRAINT scheduled_pkey PRIMARY KEY (key)
);
-- key + 0, since an index that holds key would be taken, and walked from end to end, for look-ups
-- by key when the table is small.
CREATE INDEX scheduled_order ON {{.schema}}.scheduled (not_before, (key + 0));
CREATE INDEX scheduled_tried ON {{.schema}}.scheduled (tries) WHERE tries > 0;

-- One row per call of OwnTasks: a heartbeat touches only this one. spans are the keys handed out
-- as pairs of lo and hi, size their number. A second part is split off when only some of the tasks
-- are extended. session is the one that the actor is registered at, if it is.
CREATE TABLE {{.schema}}.leases (
    claim    bigint      NOT NULL,
    deadline timestamptz NOT NULL,
    owned_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    session  bigint,
    size     integer     NOT NULL,
    part     integer     NOT NULL DEFAULT 0,
    actor    text        COLLATE "C" NOT NULL,
    spans    bigint[]    NOT NULL,

    CONSTRAINT leases_pkey         PRIMARY KEY (claim, part),
    CONSTRAINT leases_actor_length CHECK (octet_length(actor) BETWEEN 1 AND 255)
);
CREATE INDEX leases_order ON {{.schema}}.leases (deadline);
CREATE INDEX leases_session ON {{.schema}}.leases (session, actor) WHERE session IS NOT NULL;

-- A span of tasks that were handed out together. Whoever deletes the row decides what becomes of
-- the tasks: their owner's return, their expiry, their cancellation. Whoever is after some of them
-- only has to cut these out first (split_leased).
CREATE TABLE {{.schema}}.leased (
    lo        bigint   NOT NULL,
    hi        bigint   NOT NULL,
    claim     bigint   NOT NULL,
    tries     integer  NOT NULL,
    part      integer  NOT NULL DEFAULT 0,
    completed integer,
    aborted   integer,
    progress  real,
    status    text,

    CONSTRAINT leased_pkey          PRIMARY KEY (lo),
    CONSTRAINT leased_span          CHECK (lo <= hi AND lo >> 10 = hi >> 10),
    CONSTRAINT leased_alone         CHECK (lo = hi OR (progress IS NULL AND status IS NULL)),
    CONSTRAINT leased_status_length CHECK (octet_length(status) <= 65536)
);

-- A span of tasks that ended alike, in one call, with nothing to be said of each. Append-only until
-- pruned, but for the status of a task that the expiry of its last try has ended: claim is then the
-- complement of its owner's, until that says why. It is null if the task ended without an owner.
-- One that posts its result is alone.
CREATE TABLE {{.schema}}.finished (
    lo          bigint      NOT NULL,
    hi          bigint      NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    claim       bigint,
    tries       integer     NOT NULL,
    cause       smallint    NOT NULL,
    actor       text        COLLATE "C",
    status      text,
    result      bytea,

    CONSTRAINT finished_pkey          PRIMARY KEY (lo),
    CONSTRAINT finished_span          CHECK (lo <= hi AND lo >> 10 = hi >> 10),
    CONSTRAINT finished_alone         CHECK (lo = hi OR (status IS NULL AND result IS NULL)),
    CONSTRAINT finished_cause_known   CHECK (cause BETWEEN 0 AND 6),
    CONSTRAINT finished_status_length CHECK (octet_length(status) <= 65536),
    CONSTRAINT finished_result_length CHECK (octet_length(result) <= 67108864)
);
-- For pruning, which walks through those of a kind from the oldest on. Each row is in one of them.
-- (A block-range index is cheaper to write, but the pages that pruning empties are filled again,
-- and its ranges then reach from the oldest row to the newest: it would find every page.)
CREATE INDEX finished_completed ON {{.schema}}.finished (finished_at, lo) WHERE cause = 0;
CREATE INDEX finished_aborted ON {{.schema}}.finished (finished_at, lo) WHERE cause <> 0;
-- Of those that failed themselves: few, and what people look for first.
CREATE INDEX finished_failed ON {{.schema}}.finished (finished_at) WHERE cause IN (1, 2, 6);

-- Tasks with an absolute deadline (R6). Removed when it passes, whatever became of the task.
CREATE TABLE {{.schema}}.deadlines (
    deadline timestamptz NOT NULL,
    key      bigint      NOT NULL,

    CONSTRAINT deadlines_pkey PRIMARY KEY (deadline, key)
);

-- A task with predecessors that have yet to signal: how many, and how those that have signalled
-- ended. One that was owned before it got them keeps its claim, tries and status text here.
CREATE TABLE {{.schema}}.blocked (
    key        bigint      NOT NULL,
    not_before timestamptz,
    claim      bigint,
    missing    integer     NOT NULL,
    completed  integer     NOT NULL DEFAULT 0,
    aborted    integer     NOT NULL DEFAULT 0,
    tries      integer     NOT NULL DEFAULT 0,
    status     text,

    CONSTRAINT blocked_pkey  PRIMARY KEY (key),
    CONSTRAINT blocked_signs CHECK (missing > 0 AND completed >= 0 AND aborted >= 0)
);

-- run waits for after. An edge is settled when after is final; it goes when either task leaves the
-- store.
CREATE TABLE {{.schema}}.edges (
    after bigint NOT NULL,
    run   bigint NOT NULL,

    CONSTRAINT edges_loop CHECK (after <> run)
);
-- Each edge once. -run, since an index that holds run would be taken, and walked from end to end,
-- for look-ups by run when the table is small.
CREATE UNIQUE INDEX edges_after ON {{.schema}}.edges (after, (-run));
CREATE INDEX edges_run ON {{.schema}}.edges (run);
ALTER TABLE {{.schema}}.edges REPLICA IDENTITY FULL;

-- How the tasks ended that a completed spontaneous task stands for.
CREATE TABLE {{.schema}}.joined (
    key       bigint  NOT NULL,
    completed integer NOT NULL,
    aborted   integer NOT NULL,

    CONSTRAINT joined_pkey PRIMARY KEY (key)
);

-- What a transaction has yet to settle before it commits: signals on their way to a dependent
-- (signals of them; spoiled says that one came from an aborted task), and tasks that are to end,
-- with the causes of finished or, to leave the store, with 7. Nobody else ever sees a row of it, so
-- it needs no durability. round counts down from one statement to the next; what would be left over
-- in round 0 fails the transaction instead.
CREATE UNLOGGED TABLE {{.schema}}.settling (
    batch     bigint   NOT NULL,
    key       bigint   NOT NULL,
    claim     bigint,
    round     integer  NOT NULL,
    signals   integer,
    completed integer,
    aborted   integer,
    tries     integer,
    cause     smallint,
    spoiled   boolean,
    actor     text     COLLATE "C",
    status    text,

    CONSTRAINT settling_pkey        PRIMARY KEY (batch, key),
    CONSTRAINT settling_rounds      CHECK (round > 0),
    CONSTRAINT settling_kind        CHECK ((signals IS NULL) <> (cause IS NULL)),
    CONSTRAINT settling_cause_known CHECK (cause BETWEEN 0 AND 7)
);

-- One row, locked by whoever adds edges into tasks that are in the store already: two who do so at
-- once could close a cycle between them that neither sees.
CREATE TABLE {{.schema}}.dependency_lock (
    lock boolean NOT NULL,

    CONSTRAINT dependency_lock_pkey PRIMARY KEY (lock)
);
INSERT INTO {{.schema}}.dependency_lock VALUES (true);

-- When somebody last asked for tasks with an action, and how many were handed out so far, not for
-- the first time those of retries; all of it about. Room is left for new versions, one a second and
-- store.
CREATE TABLE {{.schema}}.action_stats (
    asked_at timestamptz NOT NULL,
    tries    bigint      NOT NULL DEFAULT 0,
    retries  bigint      NOT NULL DEFAULT 0,
    action   text        COLLATE "C" NOT NULL,

    CONSTRAINT action_stats_pkey PRIMARY KEY (action)
) WITH (fillfactor = 50);
CREATE INDEX action_stats_order ON {{.schema}}.action_stats (asked_at);

-- One row per store that waits for notifications or whose actors are registered. Its session, a
-- connection of its own, holds the advisory lock with the number id, shared, for as long as it
-- lives. topics are what it wants to be notified of. watches says that the store looks for sessions
-- that are gone. gone_at is when somebody found the lock free; when grace has passed since, the
-- tasks of its actors are handed on.
CREATE TABLE {{.schema}}.sessions (
    id      bigint      NOT NULL,
    gone_at timestamptz,
    grace   interval    NOT NULL,
    watches boolean     NOT NULL DEFAULT false,
    topics  text[]      COLLATE "C" NOT NULL,

    CONSTRAINT sessions_pkey PRIMARY KEY (id)
);

-- The actors that are registered at a session, and remote ones: these have a number of their own
-- for session, which their leases carry, and are in no table of sessions. attendant is the session
-- of the store to which a remote actor is connected, epoch counts its connections.
CREATE TABLE {{.schema}}.actors (
    session   bigint      NOT NULL,
    attendant bigint      NOT NULL,
    epoch     bigint      NOT NULL DEFAULT 0,
    since     timestamptz NOT NULL DEFAULT statement_timestamp(),
    actor     text        COLLATE "C" NOT NULL,
    actions   text[]      COLLATE "C" NOT NULL,

    CONSTRAINT actors_pkey PRIMARY KEY (session, actor)
);
CREATE INDEX actors_attendant ON {{.schema}}.actors (attendant);

-- At most one row: how far pruning has come. behind is how much longer than their retention those
-- finished tasks have stayed that were pruned last, 0 where none was left. Room is left for new
-- versions.
CREATE TABLE {{.schema}}.pruning (
    told_at timestamptz NOT NULL,
    behind  interval    NOT NULL,
    single  boolean     NOT NULL DEFAULT true,

    CONSTRAINT pruning_pkey   PRIMARY KEY (single),
    CONSTRAINT pruning_single CHECK (single)
) WITH (fillfactor = 50);

-- Every task with the state it is in: 0 blocked, 1 scheduled, 2 ready, 3 in progress, 10 completed,
-- 10 + cause aborted. One statement sees one instant, at which a task is in exactly one state
-- table.
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

-- Rows of these tables live for seconds. The default settings would let ten thousands of dead ones
-- gather before the first vacuum, and every scan of the head of the queue walks them.
ALTER TABLE {{.schema}}.ready SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.scheduled SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.leased SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.blocked SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, fillfactor = 70);
ALTER TABLE {{.schema}}.settling SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.leases SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, fillfactor = 70);

-- Rows of these go as fast as they come once their retention has passed. By default a vacuum waits
-- for a fifth of the table to be dead, and is then made to rest so often that under full load it
-- never ends before as many are dead again.
ALTER TABLE {{.schema}}.tasks SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.finished SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.edges SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.joined SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {{.schema}}.deadlines SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The task store of the package taskstore: tasks that are never updated, only deleted and inserted
-- again under a larger ID. It shares nothing with the tables above but the schema.

-- IDs are used up to upto and no further, and upto is on disk before they are used. The sequence is
-- not logged: a crash, or the promotion of a standby, sets it back to its START, where no ID is
-- positive. Whoever gets an ID that is not positive, or over upto, first raises upto and sets the
-- sequence behind the old one (reserve_ids). So no ID is used twice, even if a crash loses tasks
-- that were committed without waiting for the disk.
CREATE UNLOGGED SEQUENCE {{.schema}}.taskstore_ids
    MINVALUE -9223372036854775808 START -9223372036854775808;
CREATE TABLE {{.schema}}.taskstore_reserved (
    upto   bigint  NOT NULL,
    single boolean NOT NULL DEFAULT true,

    CONSTRAINT taskstore_reserved_pkey   PRIMARY KEY (single),
    CONSTRAINT taskstore_reserved_single CHECK (single)
);
INSERT INTO {{.schema}}.taskstore_reserved VALUES (0);

-- available is in milliseconds since the Epoch: until then the task belongs to owner, the client
-- that wrote it. place is random: claims begin at a random one, so they meet rarely, and find a
-- task by 64 look-ups at most, however many tasks of the group are owned.
CREATE TABLE {{.schema}}.taskstore_tasks (
    id         bigint   NOT NULL,
    available  bigint   NOT NULL,
    owner      bigint   NOT NULL,
    place      smallint NOT NULL DEFAULT floor(random() * 64),
    group_name text     COLLATE "C" NOT NULL,
    data       bytea    NOT NULL,

    CONSTRAINT taskstore_tasks_pkey         PRIMARY KEY (id),
    CONSTRAINT taskstore_tasks_id_sign      CHECK (id > 0),
    CONSTRAINT taskstore_tasks_place_known  CHECK (place BETWEEN 0 AND 63),
    CONSTRAINT taskstore_tasks_group_length CHECK (octet_length(group_name) BETWEEN 1 AND 255),
    CONSTRAINT taskstore_tasks_data_length  CHECK (octet_length(data) <= 1048576)
);
CREATE INDEX taskstore_tasks_order ON {{.schema}}.taskstore_tasks (group_name, place, available);

ALTER TABLE {{.schema}}.taskstore_tasks SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0);

---- create above / drop below ----

DROP TABLE {{.schema}}.taskstore_tasks, {{.schema}}.taskstore_reserved;
DROP SEQUENCE {{.schema}}.taskstore_ids;

DROP VIEW {{.schema}}.task_states;
DROP TABLE {{.schema}}.supported, {{.schema}}.pruning, {{.schema}}.actors, {{.schema}}.sessions,
    {{.schema}}.action_stats, {{.schema}}.dependency_lock, {{.schema}}.settling,
    {{.schema}}.joined, {{.schema}}.edges, {{.schema}}.blocked, {{.schema}}.deadlines,
    {{.schema}}.finished, {{.schema}}.leased,
    {{.schema}}.leases, {{.schema}}.scheduled, {{.schema}}.ready, {{.schema}}.tasks;
DROP SEQUENCE {{.schema}}.positions, {{.schema}}.blocks;
