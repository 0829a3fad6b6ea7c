package stint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// functions is the text that makes the functions add_task and finish_task.
func functions(t *testing.T) string {
	t.Helper()
	text, err := migrations.Functions(migrations.DefaultSchema)
	wantErr(t, "Functions", err, nil)
	return text
}

// newAddStore returns a store on a database that has the functions add_task and finish_task.
func newAddStore(t *testing.T) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, functions(t))
	return store, pool
}

// A querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// addTask calls add_task with these arguments.
func addTask(
	ctx context.Context, db querier, arguments string, args ...any,
) (id stint.TaskID, err error) {
	err = db.QueryRow(ctx, "SELECT stint.add_task("+arguments+")", args...).Scan(&id)
	return id, err
}

func mustAdd(t *testing.T, db querier, arguments string, args ...any) stint.TaskID {
	t.Helper()
	id, err := addTask(t.Context(), db, arguments, args...)
	if err != nil {
		t.Fatalf("add_task(%s) = %v", arguments, err)
	}
	return id
}

func wantCode(t *testing.T, what string, err error, code, part string) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != code || !strings.Contains(err.Error(), part) {
		t.Errorf("%s = %v, want code %s and %q", what, err, code, part)
	}
}

// Proves G14.
func TestAddTask_NeedsNothingButAnAction(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	id := mustAdd(t, pool, "'mail'")
	parsed, err := uuid.Parse(string(id))
	if err != nil || parsed.Version() != 7 || parsed.Variant() != uuid.RFC4122 {
		t.Errorf("the ID is %q, %v, want a UUID of version 7", id, err)
	}
	got := info(t, store, id)
	seconds, nanoseconds := parsed.Time().UnixTime()
	if off := got.InsertedAt.Sub(time.Unix(seconds, nanoseconds)); off.Abs() > time.Second {
		t.Errorf("the ID is of a time that differs from the task's by %v", off)
	}
	if got.InsertedAt.IsZero() {
		t.Error("the task was inserted at no time")
	}
	got.ID, got.InsertedAt = "", time.Time{}
	want := stint.TaskInfo{
		Action: "mail", MaxTries: 25, StatusCode: stint.StatusPending, State: stint.StateReady,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.Body != nil {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// With ensure, an ID that is taken is no error, and the query says which rows were new.
// Proves G14, R1.
func TestAddTask_EnsuresWhatIsMissing(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	insert(t, store, after("receipt/2"))
	for _, want := range []string{"1 new, 2 there, 3 new", "1 there, 2 there, 3 there"} {
		got := yields[string](t, pool, `SELECT string_agg(number || ' ' ||
				CASE WHEN added IS NULL THEN 'there' ELSE 'new' END, ', ' ORDER BY number)
			FROM (SELECT number, stint.add_task('act', 'body', ensure => true,
					id => format('receipt/%s', number)) AS added
				FROM generate_series(1, 3) AS number) AS orders`)
		if got != want {
			t.Errorf("add_task says %q, want %q", got, want)
		}
	}
	if body := info(t, store, "receipt/2").Body; body != nil {
		t.Errorf("the task that was there has the body %q", body)
	}
	for _, ensure := range []string{"false", "NULL"} {
		_, err := addTask(t.Context(), pool, "'act', id => 'receipt/1', ensure => "+ensure)
		wantCode(t, "add_task", err, "STI01", "receipt/1")
	}
}

// One function serves callers who have integers, texts and times of other types.
func TestAddTask_TakesArgumentsOfRelatedTypes(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	exec(t, pool, `CREATE TABLE mine (
		name text COLLATE "C", alias varchar COLLATE "POSIX", item text COLLATE "POSIX",
		mode text COLLATE "ucs_basic", small smallint, whole integer, big bigint, day date,
		details jsonb)`)
	exec(t, pool, `INSERT INTO mine VALUES ('act', 'act', 'tea', 'run-anyway', 7, 8, 9,
		'2100-01-02', '{"item": "tea"}')`)
	// Somebody listens, so that topics are compared, too.
	exec(t, pool, "INSERT INTO stint.sessions (id, grace, topics) VALUES (1, '1 s', '{ready b}')")
	for what, test := range map[string]struct{ arguments, body string }{
		"unknown":    {"'act', 'tea'", "tea"},
		"smallint":   {"name, item, priority => small, max_tries => small", "tea"},
		"integer":    {"name, item, priority => whole, max_tries => whole", "tea"},
		"bigint":     {"name, item, priority => big, max_tries => big", "tea"},
		"collation":  {"alias, item", "tea"},
		"collations": {"name, item, id => mode, on_abort => mode", "tea"},
		"json":       {"name, details::text", `{"item": "tea"}`},
		"bytes":      {`name, body_bytes => '\x00ff'`, "\x00\xff"},
		"date":       {"name, item, not_before => day, deadline => day + 1", "tea"},
	} {
		var id stint.TaskID
		err := pool.QueryRow(t.Context(),
			"SELECT stint.add_task("+test.arguments+") FROM mine").Scan(&id)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := info(t, store, id)
		if got.Action != "act" || string(got.Body) != test.body {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := info(t, store, "run-anyway"); got.OnAbort != stint.RunAnyway {
		t.Errorf("a text of another collation is not understood: %+v", got)
	}
	exec(t, pool, "DELETE FROM stint.sessions")
}

// The texts of the arguments are bytes, also where the caller's collation takes others for equal.
func TestAddTask_ComparesBytes(t *testing.T) {
	t.Parallel()
	_, pool := newAddStore(t)
	if !yields[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')") {
		t.Skip("this server has no collations of ICU")
	}
	exec(t, pool, `CREATE COLLATION loose (
		provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
	exec(t, pool, "CREATE TABLE mine (name text COLLATE loose, mode text COLLATE loose)")
	exec(t, pool, "INSERT INTO mine VALUES ('STINT.spontaneous', 'RUN-ANYWAY')")
	add := func(arguments string) error {
		_, err := pool.Exec(t.Context(), "SELECT stint.add_task("+arguments+") FROM mine")
		return err
	}
	wantErr(t, "add_task", add("name"), nil)
	wantCode(t, "add_task", add("name, on_abort => mode"), "STI02", "on_abort")
}

// Proves G14.
func TestAddTask_RefusesBadArgumentsAndSaysWhy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newAddStore(t)
	for arguments, want := range map[string][2]string{
		"NULL":                {"STI02", "action: must not be empty"},
		"''":                  {"STI02", "action: must not be empty"},
		"repeat('x', 256)":    {"STI03", "action bytes: 256 exceeds the limit of 255"},
		"'stint.Spontaneous'": {"STI02", "a spontaneous task needs predecessors"},
		"'act', id => ''":     {"STI02", "leave it out to get a random one"},
		"'act', id => repeat('x', 513)": {
			"STI03", "id bytes: 513 exceeds the limit of 512",
		},
		"'act', 'text', body_bytes => 'bytes'": {"STI02", "exclude each other"},
		"'act', repeat('x', 67108865)": {
			"STI03", "body bytes: 67108865 exceeds the limit of 67108864",
		},
		"'act', key => ''": {"STI02", "key: must not be empty; leave it out for none"},
		"'act', key => repeat('x', 256)": {
			"STI03", "key bytes: 256 exceeds the limit of 255",
		},
		"'act', cost => 1000000001":          {"STI02", "cost: must be 0 to 1000000000"},
		"'act', priority => 32768":           {"STI02", "priority: must be -32768 to 32767"},
		"'act', priority => -32769":          {"STI02", "priority: must be -32768 to 32767"},
		"'act', max_tries => -2":             {"STI02", "max_tries: must be -1, for no limit"},
		"'act', max_tries => 2147483648":     {"STI02", "max_tries: must be -1, for no limit"},
		"'act', on_abort => 'Run-Anyway'":    {"STI02", "must be abort-too or run-anyway"},
		"'act', not_before => 'infinity'":    {"STI02", "not_before: must be between the years"},
		"'act', not_before => '-infinity'":   {"STI02", "not_before: must be between the years"},
		"'act', deadline => 'infinity'":      {"STI02", "deadline: must be between the years"},
		"'act', deadline => '0001-01-01 BC'": {"STI02", "deadline: must be between the years"},
	} {
		_, err := addTask(t.Context(), pool, arguments)
		wantCode(t, "add_task("+arguments+")", err, want[0], want[1])
	}
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tasks"); n > 0 {
		t.Errorf("%d tasks were inserted", n)
	}
}

func TestAddTask_TakesTheLargestBody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newAddStore(t)
	mustAdd(t, pool, "'act', repeat('x', 67108864), id => repeat('y', 512)")
	got := yields[int](t, pool, "SELECT octet_length(body) FROM stint.tasks")
	if got != 64<<20 {
		t.Errorf("the body has %d bytes", got)
	}
}

// Proves G14, R1.
func TestAddTask_RefusesAnIDThatIsTaken(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	insert(t, store, stint.Task{ID: "by Go", Action: "act"})
	complete(t, store, ownOne(t, store))
	_, err := addTask(t.Context(), pool, "'act', id => 'by Go'")
	wantCode(t, "add_task", err, "STI01", `task exists: "by Go"`)
	mustAdd(t, pool, "'act', id => 'by SQL'")
	err = store.InsertTasks(t.Context(), []stint.Task{{ID: "by SQL", Action: "act"}})
	wantTasks(t, "InsertTasks", err, stint.ErrTaskExists, "by SQL")

	// Somebody who inserts the same ID at this moment decides.
	for _, commit := range []bool{true, false} {
		arguments := fmt.Sprintf("'act', id => 'commit %t'", commit)
		tx := begin(t, pool)
		mustAdd(t, tx, arguments)
		waiting := start(func() (stint.TaskID, error) {
			return addTask(t.Context(), pool, arguments)
		})
		waitForLocks(t, pool, 1)
		if commit {
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			_, err := ends(t, "add_task", waiting)
			wantCode(t, "add_task", err, "STI01", "task exists")
		} else {
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			_, err := ends(t, "add_task", waiting)
			wantErr(t, "add_task", err, nil)
		}
	}
}

// An ID that is taken behind the snapshot of a strict transaction is there, but not to be seen.
// Proves G15.
func TestAddTask_AnIDTakenBehindAStrictSnapshotIsASerializationFailure(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	for _, level := range strictLevels {
		tx := beginStrict(t, pool, level)
		insert(t, store, stint.Task{ID: stint.TaskID(level), Action: "act"})
		_, err := addTask(t.Context(), tx, "'act', id => $1", string(level))
		if !isSerializationFailure(err) {
			t.Errorf("add_task at %s = %v, want a serialization failure", level, err)
		}
	}
}

// Proves G15, R21.
func TestAddTask_TakesPartInTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newAddStore(t)
	exec(t, pool, "CREATE TABLE mine (id text)")
	for _, level := range append(strictLevels, pgx.ReadCommitted) {
		first, second := stint.TaskID(level), stint.TaskID(level+" too")
		for _, commit := range []bool{false, true} {
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			wantErr(t, "BeginTx", err, nil)
			other, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			wantErr(t, "BeginTx", err, nil)
			// Two at once, of different tasks, do not get in each other's way.
			mustAdd(t, tx, "'act', id => $1, deadline => now() + interval '1 hour'", string(first))
			mustAdd(t, other, "'act', id => $1, not_before => now() + interval '1 hour'",
				string(second))
			_, err = tx.Exec(t.Context(), "INSERT INTO mine VALUES ($1)", string(first))
			wantErr(t, "INSERT", err, nil)
			_, err = store.GetTasks(t.Context(), []stint.TaskID{first})
			wantErr(t, "GetTasks before the end", err, stint.ErrTaskNotFound)
			end, otherEnd := tx.Rollback, other.Rollback
			if commit {
				end, otherEnd = tx.Commit, other.Commit
			}
			wantErr(t, "the end", end(t.Context()), nil)
			wantErr(t, "the other end", otherEnd(t.Context()), nil)
			if commit {
				wantState(t, store, stint.StateReady, first)
				wantState(t, store, stint.StateScheduled, second)
			}
		}
		// Of what was rolled back nothing is left, in any table.
		n := yields[string](t, pool, `SELECT format('%s %s %s %s %s',
			(SELECT count(*) FROM mine), (SELECT count(*) FROM stint.tasks),
			(SELECT count(*) FROM stint.ready), (SELECT count(*) FROM stint.scheduled),
			(SELECT count(*) FROM stint.deadlines))`)
		if n != "1 2 1 1 1" {
			t.Errorf("at %s there are %s rows", level, n)
		}
		exec(t, pool, "DELETE FROM mine")
		wantErr(t, "DeleteTasks",
			errOf(store.DeleteTasks(t.Context(), []stint.TaskID{first, second})), nil)
	}
}

// Proves G15.
func TestAddTask_WakesWhoWaitsAtTheCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newHeardStore(t, stint.Options{})
	exec(t, store.pool, functions(t))
	for _, level := range append(strictLevels, pgx.ReadCommitted) {
		waiting := store.await(t.Context(), t, 1)
		tx, err := store.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		wantErr(t, "BeginTx", err, nil)
		id := mustAdd(t, tx, "'act'")
		wantGoingOn(t, "WaitToOwnTasks", waiting)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		wantOwned(t, waiting, id)
	}
}

// A commit that notifies holds a lock of the whole server, so only one that is waited for does, and
// none that is told not to.
// Proves G15.
func TestAddTask_NotifiesOnlyThoseWhoWaitAndUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	_, pool := newAddStore(t)
	exec(t, pool, `INSERT INTO stint.sessions (id, grace, topics)
		VALUES (1, '1 s', '{ready act,finished}')`)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	listening, err := pool.Acquire(ctx)
	wantErr(t, "Acquire", err, nil)
	defer listening.Release()
	_, err = listening.Exec(ctx, "LISTEN stint")
	wantErr(t, "LISTEN", err, nil)
	mustAdd(t, pool, "'act', notify => false")
	mustAdd(t, pool, "'other'")
	mustAdd(t, pool, "'act', not_before => now() + interval '1 hour', notify => NULL")
	mustAdd(t, pool, "'act', notify => false")
	exec(t, pool, "NOTIFY stint, 'last'")
	for _, want := range []string{"ready act", "last"} {
		got, err := listening.Conn().WaitForNotification(ctx)
		if err != nil || got.Payload != want {
			t.Fatalf("notified of %+v, %v, want %q", got, err, want)
		}
	}
	exec(t, pool, "DELETE FROM stint.sessions")
}

// Its plans may have been made when all was empty. None of its statements looks through a table
// that grows.
// Proves G17.
func TestAddTask_ReadsAsMuchHoweverManyTasksThereAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tasks, pagesMax = 20_000, 60
	pool := testdb.New(t)
	exec(t, pool, functions(t))
	conn, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	const arguments = "'act', id => $1, deadline => now() + $2::interval, " +
		"not_before => now() + $3::interval"
	read := func(id string, later string) int64 {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		wantErr(t, "Begin", err, nil)
		before := fetched(t, tx)
		mustAdd(t, tx, arguments, id, "2 hours", later)
		pages := fetched(t, tx) - before
		wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
		return pages
	}
	for i := range 10 { // so that plans are made, and kept
		read(fmt.Sprint(i), "1 hour")
		read(fmt.Sprint(i), "-1 hour")
	}
	fill(t, pool, tasks)
	for _, later := range []string{"1 hour", "-1 hour"} {
		if got := read("new", later); got == 0 || got > pagesMax {
			t.Errorf("add_task among %d tasks reads %d pages, want 1 to %d", tasks, got, pagesMax)
		}
	}
	_, err = addTask(t.Context(), conn, "'act', id => 'task7'")
	wantCode(t, "add_task of an ID that is taken", err, "STI01", "task exists")
}

// Who may create in a schema that the path names, or temporary objects, cannot have code of his run
// by the function, whose owner may do more than he.
// Proves G16.
func TestAddTask_CallsNobodysFunctions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, path := range hostilePaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			exec(t, clean, "INSERT INTO stint.sessions (id, grace, topics) "+
				"VALUES (1, '1 s', '{ready act}')")
			pool, tr := lured(t, clean, path, pgx.QueryExecModeExec)
			exec(t, pool, functions(t))
			tx := begin(t, pool)
			_, err := tx.Exec(t.Context(), `
				CREATE TEMPORARY TABLE tasks (LIKE stint.tasks);
				CREATE TEMPORARY TABLE sessions (topics text[]);
				CREATE TEMPORARY TABLE uuid (which integer);
				CREATE TEMPORARY TABLE text (which integer);
				CREATE TEMPORARY TABLE supported (since integer);
				INSERT INTO supported VALUES (99)`)
			wantErr(t, "CREATE", err, nil)
			before := pathOf(t, tx)
			given := stint.TaskID("given")
			mustAdd(t, tx, "'act', 'body', id => $1, priority => 1, max_tries => 3, "+
				"not_before => '2100-01-01', deadline => '2200-01-01', on_abort => 'run-anyway'",
				string(given))
			random := mustAdd(t, tx, "'act', body_bytes => 'body'")
			if got := pathOf(t, tx); got != before {
				t.Errorf("the function leaves the path %s, it was %s", got, before)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			tr.wantNone(t)
			store := openStore(t, clean, stint.Options{Maintenance: stint.MaintainNever})
			wantState(t, store, stint.StateScheduled, given)
			wantState(t, store, stint.StateReady, random)
			if got := info(t, store, given); got.MaxTries != 3 || got.OnAbort != stint.RunAnyway ||
				string(got.Body) != "body" {
				t.Errorf("the task is %+v", got)
			}
			exec(t, clean, "DELETE FROM stint.sessions")
			checkStore(t, clean)
		})
	}
}

// A function that was not brought up to date together with the tables inserts nothing that does not
// fit.
// Proves G18.
func TestAddTask_RefusesASchemaThatDoesNotSupportIt(t *testing.T) {
	t.Parallel()
	_, pool := newUncheckedStore(t, stint.Options{})
	exec(t, pool, functions(t))
	exec(t, pool, "UPDATE stint.stint_schema_version SET version = version + 1")
	mustAdd(t, pool, "'act'")
	exec(t, pool, "UPDATE stint.supported SET since = 3")
	_, err := addTask(t.Context(), pool, "'act'")
	wantCode(t, "add_task", err, "STI04", "no longer works")
}

// Whichever of the files an administrator runs last.
// Proves G16, G333.
func TestRoles_EnqueuerAddsAndFinishesTasksAndNothingElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, last := range []string{"functions", "roles"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			roles := newRoles(t)
			t.Cleanup(func() { checkStore(t, roles.pool) })
			text := strings.ReplaceAll(functions(t), "stint_enqueuer", roles.name("enqueuer"))
			exec(t, roles.pool, text)
			if last == "roles" {
				exec(t, roles.pool, "ALTER FUNCTION stint.add_task OWNER TO CURRENT_USER")
				exec(t, roles.pool, "REVOKE ALL ON FUNCTION stint.add_task, stint.finish_task "+
					"FROM "+roles.name("enqueuer"))
				exec(t, roles.pool, roles.script)
			}
			pool := roles.login(t, "enqueuer")
			id := mustAdd(t, pool, "'act', 'body'")
			admin := openStore(t, roles.pool, stint.Options{Maintenance: stint.MaintainNever})
			wantState(t, admin, stint.StateReady, id)
			mustFinish(t, nil, pool, completed(own(t, admin, 1))[0])
			wantState(t, admin, stint.StateCompleted, id)
			wantNothingElse(t, roles, pool)

			owning := poolOf(t, roles.login(t, "owner"), func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["role"] = roles.name("owner")
			})
			exec(t, owning, text) // again, after an upgrade
			mustAdd(t, pool, "'act'")
			owner := yields[string](t, roles.pool, "SELECT proowner::regrole::text FROM pg_proc "+
				"WHERE oid = 'stint.add_task'::regproc")
			if owner != roles.name("owner") {
				t.Errorf("the function belongs to %s, and so acts as this role", owner)
			}
			for _, role := range []string{"producer", "worker", "monitor"} {
				pool := roles.login(t, role)
				_, err := addTask(t.Context(), pool, "'act'")
				wantRefused(t, "add_task by "+role, err)
				_, err = pool.Exec(t.Context(), "SELECT stint.finish_task('a', gen_random_uuid())")
				wantRefused(t, "finish_task by "+role, err)
			}
		})
	}
}

// wantNothingElse checks that an account of the role may do nothing in the schema but call the
// functions.
func wantNothingElse(t *testing.T, roles *roles, pool *pgxpool.Pool) {
	t.Helper()
	for _, statement := range []string{
		"SELECT FROM stint.tasks", "SELECT FROM stint.stint_schema_version",
		"INSERT INTO stint.settling (batch) VALUES (1)", "SELECT nextval('stint.blocks')",
		"CREATE TABLE stint.mine ()", "ALTER FUNCTION stint.add_task SECURITY INVOKER",
		"DROP FUNCTION stint.add_task",
	} {
		_, err := pool.Exec(t.Context(), statement)
		wantRefused(t, statement, err)
	}
	account := pool.Config().ConnConfig.User
	got := yields[string](t, roles.pool, `
		SELECT coalesce(string_agg(oid::regclass::text, ', '), 'none')
		FROM pg_class
		WHERE relnamespace = 'stint'::regnamespace AND (
			relkind IN ('r', 'v') AND (
				has_any_column_privilege($1, oid, 'SELECT, INSERT, UPDATE, REFERENCES')
				OR has_table_privilege($1, oid, 'DELETE, TRUNCATE, TRIGGER'))
			OR relkind = 'S' AND has_sequence_privilege($1, oid, 'USAGE, SELECT, UPDATE'))`,
		account)
	if got != "none" {
		t.Errorf("%s has privileges on %s", account, got)
	}
}

// Who has another schema replaces its name in the files, as they say.
func TestRoles_AndFunctionsFitASchemaOfAnotherName(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	schema := "other_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		return migrations.MigrateSchema(t.Context(), conn.Conn(), schema)
	})
	wantErr(t, "MigrateSchema", err, nil)
	t.Cleanup(func() {
		for _, name := range []string{
			"owner", "producer", "worker", "monitor", "enqueuer", "operator",
		} {
			dropRole(t, pool, schema+"_"+name)
		}
	})
	for _, file := range []string{"roles.sql", "functions.sql", "finish_task.sql"} {
		text, err := os.ReadFile(filepath.Join("migrations", file))
		wantErr(t, "ReadFile", err, nil)
		const kept = "stint_schema_version"
		parts := strings.Split(string(text), kept)
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "stint", schema)
		}
		exec(t, pool, strings.Join(parts, kept))
	}
	tx := begin(t, pool)
	_, err = tx.Exec(t.Context(), "SET LOCAL ROLE "+schema+"_enqueuer")
	wantErr(t, "SET ROLE", err, nil)
	var id stint.TaskID
	err = tx.QueryRow(t.Context(), "SELECT "+schema+".add_task('act')").Scan(&id)
	wantErr(t, "add_task", err, nil)
	_, err = tx.Exec(t.Context(), "SELECT "+schema+".add_task('stint.Spontaneous')")
	wantCode(t, "add_task", err, "STI02", "spontaneous")
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)

	store := openStore(t, pool, stint.Options{
		Schema: schema, Maintenance: stint.MaintainNever,
	})
	insert(t, store, after("a"), join("b", "a"))
	r := completed(own(t, store, 1))[0]
	exec(t, pool, "SELECT "+schema+".finish_task($1, $2::text::uuid)", r.ID, r.Token.String())
	wantState(t, store, stint.StateCompleted, "a", "b")
}
