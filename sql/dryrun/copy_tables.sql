-- name: copy_tables
--
-- Makes the tables in which a dry run does its work, for copy_tasks to fill. They are the session's
-- own, so that it locks nothing that others need, and go with the transaction, which is undone.
--
-- It is several statements, sent as they are. Of limits nothing is copied: what a verb unparks is
-- no part of its answer. A role that may abort tasks may not read all columns of leases, nor
-- answer_keys.
CREATE TEMP TABLE tasks (LIKE stint.tasks INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE ready (LIKE stint.ready INCLUDING ALL) ON COMMIT DROP;
-- Places in the queue, too: to take one from the sequence of the schema locks that, and is logged.
CREATE TEMP SEQUENCE positions OWNED BY pg_temp.ready.position;
ALTER TABLE pg_temp.ready ALTER position SET DEFAULT nextval('pg_temp.positions');
CREATE TEMP TABLE scheduled (LIKE stint.scheduled INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE leased (LIKE stint.leased INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE leases (
    claim bigint  NOT NULL,
    part  integer NOT NULL,
    actor text    COLLATE "C" NOT NULL,
    PRIMARY KEY (claim, part)
) ON COMMIT DROP;
CREATE TEMP TABLE blocked (LIKE stint.blocked INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE finished (LIKE stint.finished INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE joined (LIKE stint.joined INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE edges (LIKE stint.edges INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE deadlines (LIKE stint.deadlines INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE settling (LIKE stint.settling INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE fail_fast (LIKE stint.fail_fast INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE tries (LIKE stint.tries INCLUDING ALL) ON COMMIT DROP;
CREATE TEMP TABLE losses (key bigint) ON COMMIT DROP;
CREATE TEMP TABLE steps (key bigint) ON COMMIT DROP;
CREATE TEMP TABLE answer_keys (key bigint) ON COMMIT DROP;
CREATE TEMP TABLE dependency_lock (lock boolean NOT NULL) ON COMMIT DROP;
CREATE TEMP TABLE limits (LIKE stint.limits INCLUDING INDEXES) ON COMMIT DROP;
CREATE TEMP TABLE limited_keys (LIKE stint.limited_keys INCLUDING INDEXES) ON COMMIT DROP;
CREATE TEMP TABLE slots (LIKE stint.slots INCLUDING INDEXES) ON COMMIT DROP;
CREATE TEMP TABLE turns (LIKE stint.turns INCLUDING INDEXES) ON COMMIT DROP;
CREATE TEMP TABLE key_rates (LIKE stint.key_rates INCLUDING INDEXES) ON COMMIT DROP;
CREATE TEMP TABLE holders (LIKE stint.holders) ON COMMIT DROP;
-- How the tasks were that a verb may reach: their states are numbered as in task_states.
CREATE TEMP TABLE seen (
    key         bigint   NOT NULL PRIMARY KEY,
    state       smallint NOT NULL,
    finished_at timestamptz
) ON COMMIT DROP;
