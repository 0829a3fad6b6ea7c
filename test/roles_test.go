package stint_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
	"github.com/stint-tasks/stint/migrations"
)

// producing are the statements that stint_producer needs, monitoring those of stint_monitor, and
// operating those that stint_operator needs besides all others. The rest are for stint_worker.
var (
	producing = []string{
		"copies_changed", "copy_tasks",
		"add_edges", "allocate_blocks", "attend_session", "change_tasks", "split_changing",
		"split_leased", "split_ready",
		"delete_schedules", "drop_session", "edges_ahead", "end_tasks", "ensure_schedules",
		"existing_edges", "existing_tasks", "explain_steps", "find_response",
		"find_schedules", "get_tasks", "graph_tasks", "keep_response", "lock_states",
		"insert_answer_keys", "insert_fail_fast",
		"insert_network", "insert_separately", "inserted_lately", "insert_task", "insert_tasks",
		"keep_ends",
		"list_blocked", "list_bodies", "list_changes", "list_finished", "list_ids", "list_leased",
		"list_newest", "note_change", "note_others", "note_tasks", "task_changes",
		"list_owned", "list_queue", "list_ready", "list_scheduled", "list_schedules",
		"list_tasks", "list_tries", "lock_dependencies", "lock_dependents",
		"lock_predecessors", "lock_schedules", "notify", "notify_along", "now", "pause_schedules",
		"put_schedules", "resume_schedules", "schedule_bytes", "schema_version",
		"settle_tasks", "small_tasks", "splittable_tasks", "take_signals", "task_ids", "task_keys",
		"unpark_within_limits",
		"waited_tasks", "waiting_tasks", "withdraw_tasks",
	}
	monitoring = []string{
		"check_parked", "check_store", "count_ready", "count_tasks", "count_tries",
		"explain_asked", "explain_limits", "explain_start", "explain_steps", "explain_task",
		"find_schedules",
		"find_response", "get_tasks", "graph_tasks",
		"limited_actions",
		"list_actors", "list_blocked", "list_bodies", "list_finished", "list_ids", "list_leased",
		"list_changes", "list_errors", "list_limited_keys", "task_changes",
		"list_limits", "list_minutes", "list_newest", "list_owned", "list_problems", "list_queue",
		"list_ready",
		"list_scheduled", "list_schedules", "list_tasks", "list_tries", "list_unwatched",
		"pruning_behind", "read_origin",
		"sample_tasks",
		"schedule_bytes", "schema_version", "small_tasks",
		"task_ids", "unsettled_edges", "waited_tasks",
	}
	operating = []string{
		"forget_keys", "forget_limits", "forget_origin", "limits_now", "lock_limiting",
		"lower_supported",
		"pause_actions", "pause_keys", "raise_supported", "resume_actions", "resume_keys",
		"set_limits",
		"set_weights",
	}
)

// roles are the group roles of a test, since roles belong to the whole server.
type roles struct {
	pool      *pgxpool.Pool // of the administrator
	superuser *pgxpool.Pool
	script    string
	suffix    string
}

// newRoles applies migrations/roles.sql to a database of its own.
func newRoles(t *testing.T) *roles {
	t.Helper()
	pool := testdb.New(t)
	return newRolesBy(t, pool, pool)
}

// newRolesBy applies it as an administrator who may be no superuser.
func newRolesBy(t *testing.T, administrator, superuser *pgxpool.Pool) *roles {
	t.Helper()
	const file = "STINT_TEST_ROLES" // chaos/mutants sets it
	text, err := os.ReadFile(cmp.Or(os.Getenv(file), "migrations/roles.sql"))
	wantErr(t, "ReadFile", err, nil)
	r := &roles{
		pool: administrator, superuser: superuser, script: string(text),
		suffix: "_" + strings.ReplaceAll(uuid.NewString(), "-", ""),
	}
	names := []string{"owner", "producer", "worker", "operator", "monitor", "enqueuer"}
	for _, name := range names {
		r.script = strings.ReplaceAll(r.script, "stint_"+name, r.name(name))
	}
	t.Cleanup(func() {
		for _, name := range names {
			dropRole(t, r.superuser, r.name(name))
		}
	})
	exec(t, r.pool, r.script)
	return r
}

func (r *roles) name(role string) string { return "stint_" + role + r.suffix }

// dropRole drops a role with its rights. Its objects go to the superuser.
func dropRole(t *testing.T, superuser *pgxpool.Pool, role string) {
	t.Helper()
	for _, statement := range []string{
		"REASSIGN OWNED BY " + role + " TO CURRENT_USER",
		"DROP OWNED BY " + role, "DROP ROLE " + role,
	} {
		if _, err := superuser.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// login returns a pool of an account to which a role is granted.
func (r *roles) login(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	account, password := role+"_account"+r.suffix, uuid.NewString()
	exec(t, r.pool, "CREATE ROLE "+account+" LOGIN PASSWORD '"+password+"'")
	t.Cleanup(func() { dropRole(t, r.superuser, account) })
	exec(t, r.pool, "GRANT "+r.name(role)+" TO "+account)
	return poolOf(t, r.pool, func(config *pgxpool.Config) {
		config.ConnConfig.User, config.ConnConfig.Password = account, password
	})
}

func (r *roles) store(t *testing.T, role string, opts stint.Options) *stint.Store {
	t.Helper()
	return openStore(t, r.login(t, role), opts)
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("%s = %v, want permission denied", what, err)
	}
}

// Proves G166.
func TestRoles_ProducerInsertsAbortsAndWaitsAndNothingElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	roles := newRoles(t)
	store := roles.store(t, "producer", stint.Options{PollInterval: pollNever})
	admin := openStore(t, roles.pool, stint.Options{Maintenance: stint.MaintainNever})
	t.Cleanup(func() { checkStore(t, roles.pool) })

	insert(t, store, stint.Task{ID: "a", Action: "act", PostResult: true, Body: []byte("body")})
	insert(t, store, numbered("t", 20)...)
	for range 2 { // the second time as COPY
		_, err := store.InsertTasksFrom(ctx, stream(numbered(uuid.NewString(), 3000), nil))
		wantErr(t, "InsertTasksFrom", err, nil)
	}
	ensure(t, store, numbered("t", 1), "t000000")
	ensure(t, store, []stint.Task{after("t000000"), after("ensured", "t000001")}, "t000000")
	owned := own(t, admin, 10)
	insert(t, store, stint.Task{
		ID: "due", Action: "other", After: []stint.TaskID{owned[0].ID},
		Deadline: time.Now().Add(time.Hour), NotBefore: time.Now().Add(time.Hour),
	}, stint.Task{ID: "join", Action: stint.Spontaneous, After: []stint.TaskID{"due"}},
		stint.Task{ID: "end", Action: stint.Spontaneous, PostResult: true})
	wantErr(t, "AddDependencies", store.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: owned[1].ID, Dependent: "due"}, {Predecessor: "end", Dependent: "t000019"},
	}), stint.ErrTaskFinished)
	wantErr(t, "AddDependencies", store.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: owned[1].ID, Dependent: "due"},
		{Predecessor: "t000018", Dependent: "t000019"},
	}), nil)
	change(t, store, stint.TaskChanges{NotBefore: tomorrow(), Key: new("k"), MaxTries: 3},
		[]stint.TaskID{"t000018", "due"}, "due", "t000018")
	aborted := []stint.TaskID{owned[1].ID, "t000018"}
	wantErr(t, "DryRun", errOf(store.DryRun().AbortTasks(ctx, aborted, "")), nil)
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, aborted, "")), nil)
	wantState(t, store, stint.StateAborted, "due", "join", "t000019")
	wantErr(t, "InsertTasks", store.InsertTasks(ctx, numbered("t", 1)), stint.ErrTaskExists)
	if _, err := store.Graph(ctx, "due"); err != nil {
		t.Errorf("Graph = %v", err)
	}

	waiting := start(func() (stint.TaskInfo, error) { return store.WaitForTask(ctx, "a") })
	eventually(t, soon, "the session listens", func() bool {
		return listeners(t, roles.pool, "finished") > 0
	})
	returnWith(t, admin, owned[0], stint.Return{Code: stint.StatusCompleted, Result: []byte("r")})
	if got, err := ends(t, "WaitForTask", waiting); err != nil || string(got.Result) != "r" {
		t.Errorf("WaitForTask = %+v, %v", got, err)
	}

	_, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	wantRefused(t, "OwnTasks", err)
	_, err = store.ExtendTasksOwnership(ctx, "actor", owned[2:3], time.Hour)
	wantRefused(t, "ExtendTasksOwnership", err)
	_, err = store.ReturnTasks(ctx, completed(owned[2:3]))
	wantRefused(t, "ReturnTasks", err)
	wantRefused(t, "DeleteTasks", errOf(store.DeleteTasks(ctx, []stint.TaskID{"a"})))
	wantRefused(t, "RetryTasks", errOf(store.RetryTasks(ctx, []stint.TaskID{"a"})))
	wantRefused(t, "ReplaceTasks", store.ReplaceTasks(ctx, numbered("t", 20)[15:]))
	wantRefused(t, "Maintain", store.Maintain(ctx))
	_, err = store.Check(ctx)
	wantRefused(t, "Check", err)
}

func TestRoles_WorkerDoesEverything(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	roles := newRoles(t)
	pool := roles.login(t, "worker")
	store := openStore(t, pool, stint.Options{PollInterval: pollNever})
	t.Cleanup(func() { checkStore(t, roles.pool) })
	wantErr(t, "RegisterActor", store.RegisterActor(ctx, "actor", []string{"act"}), nil)
	wholeLife(t, store, nil)
	insert(t, store, append(numbered("t", 20),
		stint.Task{ID: "a", Action: "act", Priority: 1, PostResult: true},
		stint.Task{ID: "b", Action: "act", After: []stint.TaskID{"a"}})...)
	task := ownOne(t, store)
	waiting := start(func() (stint.TaskInfo, error) { return store.WaitForTask(ctx, "a") })
	eventually(t, soon, "the session listens", func() bool {
		return listeners(t, roles.pool, "finished") > 0
	})
	tx := begin(t, pool)
	inside := store.WithTx(tx)
	wantErr(t, "HoldOwnership", inside.HoldOwnership(ctx, []stint.OwnedTask{task}), nil)
	insert(t, inside, stint.Task{ID: "next", Action: "act"})
	wantErr(t, "AddDependencies", inside.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: "next", Dependent: "b"},
	}), nil)
	returnWith(t, inside, task, stint.Return{Code: stint.StatusCompleted})
	wantErr(t, "Commit", tx.Commit(ctx), nil)
	if _, err := ends(t, "WaitForTask", waiting); err != nil {
		t.Errorf("WaitForTask = %v", err)
	}
	owned := own(t, store, 5)
	if _, err := store.Inputs(ctx, owned[0]); err != nil {
		t.Errorf("Inputs = %v", err)
	}
	expireLeases(t, roles.pool)
	maintain(t, store)
	if kept, err := store.ExtendTasksOwnership(ctx, "actor", owned, time.Hour); err != nil ||
		slices.Contains(kept, false) {
		t.Errorf("ExtendTasksOwnership of expired leases = %v, %v", kept, err)
	}
	if verdicts, err := store.ReturnTasks(ctx, completed(owned)); err != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(ctx, idsOf(owned[:2]))), nil)
	wantState(t, store, stint.StateReady, owned[0].ID, owned[1].ID)
	watchesTasks(t, store, "next")
	exec(t, roles.pool, "UPDATE stint.finished SET finished_at = finished_at - interval '1 year'")
	maintain(t, store)
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(ctx, []stint.TaskID{"next"})), nil)

	for _, statement := range []string{
		"UPDATE stint.tasks SET body = ''", "TRUNCATE stint.tasks", "DROP TABLE stint.action_stats",
		"CREATE TABLE stint.mine ()", "ALTER TABLE stint.tasks ADD mine text",
		"UPDATE stint.stint_schema_version SET version = 0", "DELETE FROM stint.dependency_lock",
	} {
		_, err := pool.Exec(ctx, statement)
		wantRefused(t, statement, err)
	}
}

// watchesTasks calls the verbs that monitors use.
func watchesTasks(t *testing.T, store *stint.Store, id stint.TaskID) {
	t.Helper()
	ctx := t.Context()
	info(t, store, id)
	if list, err := listTasks(ctx, store, stint.Filter{}); err != nil || len(list) == 0 {
		t.Errorf("ListTasks = %v, %v", list, err)
	}
	if _, err := store.Explain(ctx, id); err != nil {
		t.Errorf("Explain = %v", err)
	}
	if _, err := store.Graph(ctx, id); err != nil {
		t.Errorf("Graph = %v", err)
	}
	if _, err := store.Stats(ctx); err != nil {
		t.Errorf("Stats = %v", err)
	}
	if _, err := store.Minutes(ctx, ""); err != nil {
		t.Errorf("Minutes = %v", err)
	}
	if _, err := store.ListActors(ctx); err != nil {
		t.Errorf("ListActors = %v", err)
	}
	if found, err := store.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

func TestRoles_OperatorLimitsAndPausesAndWorkerDoesNot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	roles := newRoles(t)
	limiting := func(store *stint.Store) map[string]error {
		return map[string]error{
			"SetLimits":  store.SetLimits(ctx, "act", stint.Limits{Concurrency: 2, Fair: true}),
			"Pause":      store.Pause(ctx, "act"),
			"PauseKeys":  store.PauseKeys(ctx, "act", "key"),
			"SetWeights": store.SetWeights(ctx, "act", map[string]int{"key": 2}),
			"ResumeKeys": store.ResumeKeys(ctx, "act", "key"),
			"Resume":     store.Resume(ctx, "act"),
		}
	}
	operating := roles.store(t, "operator", stint.Options{})
	for verb, err := range limiting(operating) {
		wantErr(t, verb, err, nil)
	}
	wholeLife(t, operating, nil)
	for _, role := range []string{"worker", "producer", "monitor"} {
		store := roles.store(t, role, stint.Options{Maintenance: stint.MaintainNever})
		for verb, err := range limiting(store) {
			wantRefused(t, verb+" by "+role, err)
		}
		if role == "producer" {
			continue
		}
		if list, err := store.ListLimits(ctx); err != nil || len(list) != 1 {
			t.Errorf("ListLimits by %s = %+v, %v", role, list, err)
		}
	}
	wantErr(t, "SetLimits", operating.SetLimits(ctx, "act", stint.Limits{}), nil)
}

// Proves G166.
func TestRoles_MonitorReadsAndNothingElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	roles := newRoles(t)
	admin := openStore(t, roles.pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, admin, append(numbered("t", 20), stint.Task{
		ID: "a", Action: "other", PostResult: true, After: []stint.TaskID{"t000001"},
	})...)
	owned := own(t, admin, 5)
	pool := roles.login(t, "monitor")
	reading := openStore(t, poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), stint.Options{PollOnly: true, PollInterval: 10 * time.Millisecond})
	watchesTasks(t, reading, "a")
	waiting := start(func() (stint.TaskInfo, error) { return reading.WaitForTask(ctx, "a") })
	wantErr(t, "AbortTasks", errOf(admin.AbortTasks(ctx, []stint.TaskID{"a"}, "")), nil)
	if _, err := ends(t, "WaitForTask", waiting); err != nil {
		t.Errorf("WaitForTask = %v", err)
	}

	store := openStore(t, pool, stint.Options{})
	ids := []stint.TaskID{"t000019", "t000017"}
	wantErr(t, "AbortTasks", errOf(admin.AbortTasks(ctx, ids[1:], "")), nil)
	for name, change := range testverbs.Changes(ctx, store) {
		wantRefused(t, name, errOf(change(ids)))
	}
	_, ownErr := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	_, extendErr := store.ExtendTasksOwnership(ctx, "actor", owned, time.Hour)
	_, returnErr := store.ReturnTasks(ctx, completed(owned))
	for what, err := range map[string]error{
		"InsertTasks":  store.InsertTasks(ctx, []stint.Task{{ID: "new", Action: "act"}}),
		"ReplaceTasks": store.ReplaceTasks(ctx, []stint.Task{{ID: ids[0], Action: "act"}}),
		"AddDependencies": store.AddDependencies(ctx, []stint.Dependency{
			{Predecessor: "t000018", Dependent: "t000019"},
		}),
		"OwnTasks":             ownErr,
		"ExtendTasksOwnership": extendErr,
		"ReturnTasks":          returnErr,
		"SetStatus":            store.SetStatus(ctx, owned[0], "status", 0),
		"RecordStep":           errOf(store.RecordStep(ctx, owned[0], "step", nil)),
		"Maintain":             store.Maintain(ctx),
	} {
		wantRefused(t, what, err)
	}
}

func TestRoles_OwnerMigratesAndAppliesTheRolesAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	roles := newRoles(t)
	owning := poolOf(t, roles.login(t, "owner"), func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["role"] = roles.name("owner")
	})
	migrate := func(pool *pgxpool.Pool) error {
		return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			return migrations.Migrate(ctx, conn.Conn())
		})
	}
	wantErr(t, "Migrate as owner", migrate(owning), nil)
	exec(t, owning, `DO $$ DECLARE object text; BEGIN
		DROP SEQUENCE stint.blocks, stint.fences, stint.positions, stint.taskstore_ids CASCADE;
		FOR object IN SELECT tablename FROM pg_tables WHERE schemaname = 'stint' LOOP
			EXECUTE 'DROP TABLE stint.' || object || ' CASCADE';
		END LOOP; END $$`)
	wantErr(t, "Migrate as owner, from the first version", migrate(owning), nil)
	// What the next version may do.
	exec(t, owning, "ALTER TABLE stint.tasks ADD mine text; CREATE TABLE stint.mine ()")
	exec(t, owning, roles.script)
	working := roles.login(t, "worker")
	wantErr(t, "Migrate as worker, with nothing to do", migrate(working), nil)
	exec(t, owning, "UPDATE stint.stint_schema_version SET version = 0")
	wantRefused(t, "Migrate as worker", migrate(working))
	got := yields[string](t, owning, `SELECT string_agg(DISTINCT relowner::regrole::text, ', ')
		FROM pg_class WHERE relnamespace = 'stint'::regnamespace`)
	if want := roles.name("owner"); got != want {
		t.Errorf("the schema belongs to %s, want %s", got, want)
	}
}

// may reports whether PostgreSQL lets a role execute a statement.
func may(t *testing.T, conn *pgxpool.Conn, role, statement string) bool {
	t.Helper()
	call := "SET LOCAL ROLE " + role + "; EXPLAIN EXECUTE " + statement
	if args := sample[statement].args; args != "" {
		call += "(" + args + ")"
	}
	_, err := conn.Exec(t.Context(), call) // in one transaction
	var pgErr *pgconn.PgError
	if err != nil && (!errors.As(err, &pgErr) || pgErr.Code != "42501") {
		t.Fatalf("%s by %s: %v", statement, role, err)
	}
	return err == nil
}

// likelyFirst begins with the statements that seem to need a privilege on a table.
func likelyFirst(texts map[string]string, names []string, privilege string) []string {
	verb, table, _ := strings.Cut(privilege, " ON ")
	unlikely := func(name string) int {
		switch text := texts[name]; {
		case !strings.Contains(text, table):
			return 2
		case !strings.Contains(text, verb):
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		return unlikely(a) - unlikely(b)
	})
}

// Each role may execute its statements, and some of them no more if any of its privileges is taken
// away.
// Proves G166.
func TestRoles_HaveWhatTheirStatementsNeedAndNoMore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	roles := newRoles(t)
	conn, err := roles.pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	run := func(statement string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement)
		wantErr(t, statement, err, nil)
	}
	run(copyTables(t))
	run("GRANT ALL ON ALL TABLES IN SCHEMA pg_temp TO PUBLIC") // each makes its own
	run("SET plan_cache_mode = force_generic_plan")            // rather than five others first
	var all, working []string
	texts := statements(t)
	for name, text := range texts {
		if name == "listen" || name == "copy_tables" { // have no plan, and need no privilege
			continue
		}
		all = append(all, name)
		if !slices.Contains(operating, name) {
			working = append(working, name)
		}
		run("PREPARE " + name + " AS " + text)
	}
	for role, names := range map[string][]string{
		roles.name("producer"): producing,
		roles.name("worker"):   working,
		roles.name("operator"): all,
		roles.name("monitor"):  monitoring,
		roles.name("enqueuer"): nil, // it only calls add_task and finish_task
	} {
		refused := func(names []string) bool {
			return slices.ContainsFunc(names, func(name string) bool {
				return !may(t, conn, role, name)
			})
		}
		if refused(names) {
			t.Errorf("%s may not execute all of its statements", role)
		}
		privileges := yields[[]string](t, roles.pool, `SELECT array_agg(
			format('%s ON %I.%I', privilege_type, table_schema, table_name))
			FROM information_schema.table_privileges
			WHERE grantee = $1 AND table_name NOT LIKE 'taskstore%'`, role)
		for _, privilege := range testrun.Some(privileges) {
			run("REVOKE " + privilege + " FROM " + role)
			ofBefore := privilege == "DELETE ON stint.pruning" // see roles.sql
			ofExport := role == roles.name("monitor") && privilege == "SELECT ON stint.fail_fast"
			if !ofBefore && !ofExport && !refused(likelyFirst(texts, names, privilege)) {
				t.Errorf("%s does not need %s", role, privilege)
			}
			run("GRANT " + privilege + " TO " + role)
		}
	}
}
