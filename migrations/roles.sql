-- Six group roles with what each needs of the schema stint, and no more. Run it as an
-- administrator once the schema has been migrated, in one transaction, and again after each
-- upgrade, as stint_owner or as the administrator: it may be run any number of times. Where a role
-- is missing, such as stint_operator where this file was last run before version 2 of the schema,
-- it takes the administrator.
--
--   stint_owner     owns the schema: migrates, and runs this file
--   stint_producer  inserts, aborts and changes tasks, waits for them and reads them; schedules
--   stint_worker    every verb but those of stint_operator, and everything of the package taskstore
--   stint_operator  what stint_worker may, and sets limits, pauses and weights
--   stint_monitor   reads; with PollOnly it may wait
--   stint_enqueuer  calls the functions add_task, which functions.sql makes, and finish_task, which
--                   finish_task.sql makes and which asks for the token of a task; nothing else
--
-- docs/operations/roles.md names the verbs of each. None can log in. Grant them to the accounts of
-- your services: GRANT stint_worker TO mailer.
--
-- For another schema, or a second one on the same server, replace every "stint" in this file, but
-- not that of stint_schema_version.
--
-- It stands beside the migrations since it changes with them. Privileges are by table: PostgreSQL
-- asks for those of a whole statement before it runs it, so a role needs them for what the
-- statement could do, too. Hence a producer may delete from tasks, which settling does for
-- DeleteTasks, but cannot end anything for good: DeleteTasks and ReplaceTasks, and Debounce where
-- there is a task, fail on the table finished, and owning on the table leases. Of tasks nobody may
-- update more than ChangeTasks does.

-- Functions and operators are PostgreSQL's own, whatever the path of the administrator.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'stint_owner', 'stint_producer', 'stint_worker', 'stint_operator', 'stint_monitor',
        'stint_enqueuer'
    ]
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;
    -- stint_owner may not grant roles, and need not where the administrator has.
    IF NOT pg_has_role('stint_operator', 'stint_worker', 'USAGE') THEN
        GRANT stint_worker TO stint_operator;
    END IF;
    -- An administrator that is no superuser, such as that of a managed server, must be a member of
    -- the owner to which it gives the schema.
    IF NOT pg_has_role('stint_owner', 'USAGE') THEN
        GRANT stint_owner TO CURRENT_USER;
    END IF;
    ALTER SCHEMA stint OWNER TO stint_owner;
    FOR name IN
        SELECT format('%I.%I', nspname, relname)
        FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'stint' AND relkind IN ('r', 'v', 'S')
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO stint_owner', name);
    END LOOP;
    FOR name IN
        SELECT pg_proc.oid::regprocedure
        FROM pg_proc
        JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'stint' AND proname IN ('add_task', 'finish_task')
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO stint_owner', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO stint_enqueuer', name);
    END LOOP;
END
$$;

REVOKE ALL ON ALL TABLES IN SCHEMA stint
    FROM stint_producer, stint_worker, stint_operator, stint_monitor, stint_enqueuer;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA stint
    FROM stint_producer, stint_worker, stint_monitor, stint_enqueuer;
GRANT USAGE ON SCHEMA stint TO stint_producer, stint_worker, stint_monitor, stint_enqueuer;

GRANT SELECT ON stint.stint_schema_version, stint.supported, stint.task_states, stint.holders
    TO stint_producer, stint_worker, stint_monitor;

-- Keys of tasks, and places in the queue.
GRANT USAGE ON SEQUENCE stint.blocks, stint.positions TO stint_producer, stint_worker;

GRANT SELECT, INSERT, UPDATE, DELETE
    ON stint.ready, stint.scheduled, stint.blocked, stint.leased, stint.sessions, stint.actors
    TO stint_producer, stint_worker;
GRANT SELECT, INSERT, DELETE
    ON stint.tasks, stint.edges, stint.deadlines, stint.settling
    TO stint_producer, stint_worker;
GRANT UPDATE (priority, max_tries, limit_key) ON stint.tasks TO stint_producer, stint_worker;
GRANT UPDATE (accepts, results) ON stint.edges TO stint_producer, stint_worker;
GRANT SELECT, INSERT ON stint.finished, stint.joined TO stint_producer, stint_worker;
GRANT SELECT, UPDATE ON stint.dependency_lock TO stint_producer, stint_worker;
GRANT SELECT (claim, part, actor, spans) ON stint.leases TO stint_producer; -- ListTasks

-- To own, extend, return, hand on, end and prune.
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.leases, stint.action_stats TO stint_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.pruning TO stint_worker; -- DELETE: version 1
GRANT UPDATE ON stint.deadlines TO stint_worker;
GRANT UPDATE, DELETE ON stint.finished TO stint_worker;
GRANT DELETE ON stint.joined TO stint_worker;

-- To fetch under limits, and free capacity below them, which the end of a task in progress does.
-- Whoever may update a column may lock the rows.
GRANT SELECT ON stint.limits, stint.limited_keys, stint.slots TO stint_producer, stint_worker;
GRANT SELECT, INSERT, UPDATE ON stint.turns, stint.key_rates TO stint_producer, stint_worker;
GRANT DELETE ON stint.turns, stint.key_rates TO stint_worker;
GRANT INSERT, UPDATE, DELETE ON stint.slots TO stint_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.spent TO stint_worker;
GRANT UPDATE (tokens, refilled_at) ON stint.limits TO stint_worker;

-- To set limits and pause. supported keeps releases out that do not know of limits.
GRANT INSERT, UPDATE, DELETE ON stint.limits, stint.limited_keys TO stint_operator;
GRANT UPDATE ON stint.supported TO stint_operator;

-- To adopt a copy.
GRANT DELETE ON stint.origin TO stint_operator;

-- Whoever may insert tasks may do so by a schedule; whoever maintains inserts them.
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.schedules TO stint_producer, stint_worker;

-- To record the steps of tasks, to answer tasks, and to delete what is kept of tasks that are gone.
GRANT SELECT, INSERT, DELETE ON stint.steps, stint.answer_keys TO stint_worker;
GRANT SELECT, INSERT, DELETE ON stint.tries TO stint_worker; -- and their history
-- To count the owners that have lost a task.
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.losses TO stint_worker;
GRANT USAGE ON SEQUENCE stint.fences TO stint_worker; -- Fence
GRANT SELECT ON stint.steps, stint.tries TO stint_producer;
GRANT INSERT ON stint.answer_keys, stint.fail_fast TO stint_producer;
GRANT SELECT ON stint.fail_fast TO stint_producer; -- to say what an abort brings with it
-- Who has changed what is noted by whoever changes it, and pruned.
GRANT SELECT, INSERT ON stint.changes, stint.changed_tasks TO stint_producer, stint_worker;
GRANT UPDATE (others) ON stint.changes TO stint_producer, stint_worker;
GRANT DELETE ON stint.changes, stint.changed_tasks TO stint_worker;
-- Services keep their responses, and drop old ones.
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.calls TO stint_producer, stint_worker;
-- Whoever hands out or maintains looks whether this is a copy, and says where the tasks belong.
GRANT SELECT, INSERT ON stint.origin TO stint_worker;
GRANT SELECT, INSERT, DELETE ON stint.minutes TO stint_worker; -- what happens by the minute
-- And to abort what nothing needs any more.
GRANT SELECT, INSERT, UPDATE, DELETE ON stint.fail_fast TO stint_worker;

GRANT SELECT ON SEQUENCE stint.blocks, stint.positions TO stint_monitor; -- stint check
GRANT SELECT
    ON stint.tasks, stint.ready, stint.scheduled, stint.leases, stint.leased, stint.finished,
       stint.deadlines, stint.blocked, stint.edges, stint.joined, stint.settling,
       stint.action_stats, stint.sessions, stint.actors, stint.pruning, stint.limits,
       stint.limited_keys, stint.slots, stint.turns, stint.key_rates, stint.schedules,
       stint.steps, stint.tries, stint.losses, stint.changes, stint.changed_tasks, stint.calls,
       stint.origin, stint.minutes, stint.fail_fast -- the last for stint export
    TO stint_monitor;

-- The task store of the package taskstore. An update of tasks may add, delete and lock them, so
-- there is no role that only adds. Tasks are never updated; PostgreSQL lets those lock them who may
-- update a column.
GRANT SELECT, INSERT, UPDATE (place), DELETE ON stint.taskstore_tasks TO stint_worker;
GRANT SELECT, UPDATE ON stint.taskstore_reserved TO stint_worker;
GRANT UPDATE ON SEQUENCE stint.taskstore_ids TO stint_worker;
GRANT SELECT ON stint.taskstore_tasks TO stint_monitor;
