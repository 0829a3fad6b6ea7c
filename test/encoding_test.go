package stint_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintsql"
)

// foreign begins all texts of these tests. Some of its letters are in LATIN1, others in WIN1251,
// others in neither, and the bytes of most are letters of both.
const foreign = "Größe “5 €” наука 日本 \U0001f600 "

// A reading is settings of a connection that say how the server reads texts, and where they come
// from.
type reading struct {
	setting, value string
	set            func(t *testing.T, pool *pgxpool.Pool, setting, value string)
	change         func(config *pgxpool.Config, setting, value string)
	mode           pgx.QueryExecMode
}

func setForDatabase(t *testing.T, pool *pgxpool.Pool, setting, value string) {
	t.Helper()
	exec(t, pool, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'",
		pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize(), setting, value))
}

func setForRole(t *testing.T, pool *pgxpool.Pool, setting, value string) {
	t.Helper()
	exec(t, pool, fmt.Sprintf("ALTER ROLE CURRENT_USER IN DATABASE %s SET %s = '%s'",
		pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize(), setting, value))
}

func setByURL(config *pgxpool.Config, setting, value string) {
	config.ConnConfig.RuntimeParams[setting] = value
}

func setByOptions(config *pgxpool.Config, setting, value string) {
	config.ConnConfig.RuntimeParams["options"] = "-c " + setting + "=" + value
}

func setByHook(config *pgxpool.Config, setting, value string) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET "+setting+" = '"+value+"'")
		return err
	}
}

// readings are connections on which the server reads texts otherwise than the driver writes them.
func readings() map[string]reading {
	const encoding, literals = "client_encoding", "standard_conforming_strings"
	const simple, cached = pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement
	const described, sent = pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec
	return map[string]reading{
		"LATIN1 of the database":  {encoding, "LATIN1", setForDatabase, nil, cached},
		"WIN1251 of the role":     {encoding, "WIN1251", setForRole, nil, pgx.QueryExecModeExec},
		"LATIN1 of the URL":       {encoding, "LATIN1", nil, setByURL, sent},
		"WIN1251 of the options":  {encoding, "WIN1251", nil, setByOptions, simple},
		"EUC_JP by SET":           {encoding, "EUC_JP", nil, setByHook, described},
		"SJIS of the URL":         {encoding, "SJIS", nil, setByURL, simple},
		"SQL_ASCII of the role":   {encoding, "SQL_ASCII", setForRole, nil, simple},
		"escapes of the database": {literals, "off", setForDatabase, nil, simple},
		"escapes of the URL":      {literals, "off", nil, setByURL, cached},
	}
}

// open returns a pool on the database of a pool, whose connections read texts so.
func (r reading) open(t *testing.T, clean *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	if r.set != nil {
		r.set(t, clean, r.setting, r.value)
	}
	return poolOf(t, clean, func(config *pgxpool.Config) {
		if r.change != nil {
			r.change(config, r.setting, r.value)
		}
		config.ConnConfig.DefaultQueryExecMode = r.mode
	})
}

// utf8Pool returns a pool whose connections read UTF-8, whatever its database says.
func utf8Pool(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "on"
	})
}

// storesTexts stores a text of each kind, and reads each back through another store.
func storesTexts(t *testing.T, store, other *stint.Store, prefix string) {
	t.Helper()
	ctx := stint.WithAuthor(t.Context(),
		stint.Author{Name: prefix + "Ann", Reason: prefix + "because"})
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s = %v", what, err)
		}
	}
	action, id := prefix+"act", stint.TaskID(prefix+"id")
	ok("InsertTasks", store.InsertTasks(ctx, []stint.Task{{
		ID: id, Action: action, Key: prefix + "key", PostResult: true,
		Headers: map[string]string{"name": prefix + "header"},
	}}))
	owned, err := other.OwnTasks(ctx, stint.ActorID(prefix+"actor"), 2, []string{action}, time.Hour)
	if ok("OwnTasks", err); len(owned) != 1 || owned[0].ID != id || owned[0].Key != prefix+"key" ||
		owned[0].Headers["name"] != prefix+"header" {
		t.Fatalf("OwnTasks of another store = %+v", owned)
	}
	ok("SetStatus", store.SetStatus(ctx, owned[0], prefix+"half", 0.5))
	ok("RecordStep", errOf(store.RecordStep(ctx, owned[0], prefix+"step", []byte("1"))))
	steps, err := other.Steps(ctx, owned[0])
	if ok("Steps", err); len(steps) != 1 || steps[0].Name != prefix+"step" {
		t.Errorf("Steps of another store = %+v", steps)
	}
	ok("ReturnTask", store.ReturnTask(ctx, id, owned[0].Token, prefix+"done",
		stint.StatusCompleted))
	if got := info(t, other, id); got.Status != prefix+"done" || got.Action != action ||
		got.Actor != stint.ActorID(prefix+"actor") {
		t.Errorf("GetTasks of another store = %+v", got)
	}
	existing, err := other.EnsureTasks(ctx, []stint.Task{{ID: id, Action: action}})
	if ok("EnsureTasks", err); len(existing) != 1 || existing[0] != id {
		t.Errorf("EnsureTasks of another store = %q, want the ID to be taken", existing)
	}
	ok("DeleteTasks", errOf(store.DeleteTasks(ctx, []stint.TaskID{id})))
	changes, err := other.ListChanges(ctx, stint.ChangeFilter{ID: id})
	if ok("ListChanges", err); len(changes.Changes) != 1 ||
		changes.Changes[0].By != prefix+"Ann" || changes.Changes[0].Reason != prefix+"because" {
		t.Errorf("ListChanges of another store = %+v", changes.Changes)
	}
	ok("PutSchedules", store.PutSchedules(ctx, []stint.Schedule{{
		Name: prefix + "daily", Spec: "@daily", Tasks: []stint.Task{{Action: action}},
	}}))
	schedules, err := other.ListSchedules(ctx, prefix+"daily")
	if ok("ListSchedules", err); len(schedules) != 1 || schedules[0].Tasks[0].Action != action {
		t.Errorf("ListSchedules of another store = %+v", schedules)
	}
}

// limitsTexts is storesTexts for what is refused in a transaction.
func limitsTexts(t *testing.T, store, other *stint.Store) {
	t.Helper()
	action := foreign + "limited"
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), action, stint.Limits{Concurrency: 3}), nil)
	wantErr(t, "SetWeights",
		store.SetWeights(t.Context(), action, map[string]int{foreign + "key": 2}), nil)
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), action, foreign+"key"), nil)
	limits, err := other.ListLimits(t.Context(), action)
	if err != nil || len(limits) != 1 || limits[0].Action != action {
		t.Errorf("ListLimits of another store = %+v, %v", limits, err)
	}
}

// wantForeign checks that the tables have no other letters than those of these tests.
func wantForeign(t *testing.T, utf8 *pgxpool.Pool) {
	t.Helper()
	for _, line := range strings.Split(wholeTables(t, utf8), "\n") {
		for _, letter := range strings.ReplaceAll(line, strings.TrimSpace(foreign), "") {
			if letter > '~' {
				t.Errorf("the tables have other letters than were sent: %.200q", line)
				break
			}
		}
	}
	if n := yields[int](t, utf8, "SELECT count(*) FROM stint.tasks WHERE starts_with(id, $1)",
		foreign); n == 0 {
		t.Error("no task has the letters that were sent")
	}
}

// Whatever a connection is set to, by whomever, the server reads the texts that are sent as they
// were sent, also in the caller's transaction, whose settings stay as they were.
// Proves G296.
func TestVerbs_KeepTextsWhateverTheConnectionReads(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ways := readings()
	for _, name := range testrun.Some(slices.Sorted(maps.Keys(ways))) {
		r := ways[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			pool := r.open(t, clean)
			utf8 := utf8Pool(t, clean)
			store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			plain := openStore(t, utf8, stint.Options{Maintenance: stint.MaintainNever})
			storesTexts(t, store, plain, foreign+"a ")
			storesTexts(t, plain, store, foreign+"b ")
			limitsTexts(t, store, plain)
			everyVerb(t, store, false, foreign+"alone ")
			waitingVerbs(t, store, foreign+"waited ")
			tx, err := pool.Begin(t.Context())
			wantErr(t, "Begin", err, nil)
			everyVerb(t, store.WithTx(tx), true, foreign+"in a transaction ")
			storesTexts(t, store.WithTx(tx), store.WithTx(stint.Quiet(tx)), foreign+"c ")
			wantErr(t, "a refused verb", store.WithTx(tx).InsertTasks(t.Context(), []stint.Task{
				{ID: foreign + "refused", Action: foreign},
				{ID: foreign + "refused", Action: foreign},
			}), stint.ErrTaskExists)
			var set string
			wantErr(t, "SHOW", tx.QueryRow(t.Context(), "SHOW "+r.setting,
				pgx.QueryExecModeExec).Scan(&set), nil)
			if set != r.value {
				t.Errorf("the verbs leave %s at %q, it was %q", r.setting, set, r.value)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantForeign(t, utf8)
			checkStore(t, utf8)
		})
	}
}

// The same holds in a transaction of database/sql, and for settings that the caller's transaction
// itself has made.
// Proves G296.
func TestWithTx_KeepsTextsInEveryTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	pool := readings()["LATIN1 of the URL"].open(t, clean)
	utf8 := utf8Pool(t, clean)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	plain := openStore(t, utf8, stint.Options{Maintenance: stint.MaintainNever})
	db := stdlib.OpenDBFromPool(pool)
	tx, err := db.BeginTx(t.Context(), nil)
	wantErr(t, "BeginTx", err, nil)
	bound, err := stintsql.PgxTx(t.Context(), tx)
	wantErr(t, "PgxTx", err, nil)
	everyVerb(t, store.WithTx(bound), true, foreign+"sql ")
	wantErr(t, "Commit", tx.Commit(), nil)
	wantErr(t, "Close", db.Close(), nil)

	own, err := utf8.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	_, err = own.Exec(t.Context(), "SET LOCAL client_encoding = 'LATIN1'; "+
		"SET LOCAL standard_conforming_strings = off")
	wantErr(t, "SET", err, nil)
	everyVerb(t, plain.WithTx(own), true, foreign+"set ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "a cancelled verb", plain.WithTx(own).InsertTasks(ctx, numbered("x", 1)),
		context.Canceled)
	insert(t, plain.WithTx(own), stint.Task{ID: foreign + "after", Action: foreign})
	wantErr(t, "Commit", own.Commit(t.Context()), nil)
	wantForeign(t, utf8)
	checkStore(t, utf8)
}

// Who waits is woken by name, whichever of the two is set to what.
// Proves G296.
func TestWaitToOwnTasks_IsWokenWhateverTheConnectionReads(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	names := []string{"LATIN1 of the URL", "WIN1251 of the options", "EUC_JP by SET"}
	for _, name := range testrun.Some(names) {
		clean := testdb.New(t)
		utf8 := utf8Pool(t, clean)
		stores := []*stint.Store{}
		for _, pool := range []*pgxpool.Pool{readings()[name].open(t, clean), utf8} {
			stores = append(stores, openStore(t, pool, stint.Options{
				Maintenance: stint.MaintainNever, PollInterval: pollNever,
			}))
		}
		for i, waiting := range stores {
			for j, inserting := range stores {
				action := fmt.Sprint(foreign, i, j)
				woken := start(func() ([]stint.OwnedTask, error) {
					return waiting.WaitToOwnTasks(
						t.Context(), "actor", 1, []string{action}, time.Hour)
				})
				eventually(t, soon, "the store listens", func() bool {
					return yields[bool](t, utf8, "SELECT EXISTS (SELECT FROM "+
						"stint.sessions WHERE 'ready ' || $1 = ANY (topics))", action)
				})
				for range 2 { // the second time with others, since the first was just now
					insert(t, inserting, stint.Task{Action: action})
				}
				if owned, err := ends(t, "the wait", woken); err != nil || len(owned) != 1 {
					t.Errorf("%s: WaitToOwnTasks = %v, %v", name, owned, err)
				}
			}
		}
	}
}

// A schema may have any name.
// Proves G296.
func TestVerbs_FindASchemaOfAnyNameWhateverTheConnectionReads(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	const schema = "größe наука"
	exec(t, clean, "ALTER SCHEMA stint RENAME TO "+pgx.Identifier{schema}.Sanitize())
	pool := readings()["LATIN1 of the URL"].open(t, clean)
	store := openStore(t, pool, stint.Options{
		Schema: schema, Maintenance: stint.MaintainNever,
	})
	everyVerb(t, store, false, foreign)
	waitingVerbs(t, store, foreign+"waited ")
	tx := begin(t, pool)
	everyVerb(t, store.WithTx(tx), true, foreign+"in a transaction ")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
}

// Whoever calls add_task in the encoding of their connection inserts the same texts.
// Proves G296.
func TestAddTask_TakesTextsInTheEncodingOfItsCaller(t *testing.T) {
	t.Parallel()
	store, clean := newAddStore(t)
	pool := readings()["LATIN1 of the URL"].open(t, clean)
	conn, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	latin := []byte("Gr\xf6\xdfe") // as a driver sends it that knows the encoding
	result := conn.Conn().PgConn().ExecParams(t.Context(), "SELECT stint.add_task(action => $1, "+
		"id => $1, key => $1, headers => jsonb_build_object('name', $1::text))",
		[][]byte{latin}, nil, nil, nil).Read()
	wantErr(t, "add_task", result.Err, nil)
	if got := info(t, store, "Größe"); got.Action != "Größe" || got.Key != "Größe" ||
		got.Headers["name"] != "Größe" {
		t.Errorf("add_task has inserted %+v", got)
	}
}

// A database in another encoding is refused, however its tables were made.
// Proves G163.
func TestVerbs_RefuseADatabaseInAnotherEncoding(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	database := clean.Config().ConnConfig.Database
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		other := strings.ToLower(database + "_" + encoding)
		exec(t, clean, "CREATE DATABASE "+pgx.Identifier{other}.Sanitize()+
			" TEMPLATE template0 ENCODING '"+encoding+"' LOCALE 'C'")
		t.Cleanup(func() {
			_, err := clean.Exec(context.WithoutCancel(t.Context()),
				"DROP DATABASE "+pgx.Identifier{other}.Sanitize()+" WITH (FORCE)")
			wantErr(t, "DROP DATABASE", err, nil)
		})
		pool := poolOf(t, clean, func(config *pgxpool.Config) {
			config.ConnConfig.Database = other
		})
		exec(t, pool, "CREATE SCHEMA stint; CREATE TABLE stint.stint_schema_version AS "+
			"SELECT 2 AS version; CREATE VIEW stint.supported AS SELECT 1 AS since; "+
			"CREATE TABLE stint.origin (written_by xid, database_id oid, environment text)")
		store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		for verb, call := range verbs(store) {
			err := call(t.Context())
			wantErr(t, verb, err, stint.ErrSchemaVersion)
			if !strings.Contains(err.Error(), encoding) {
				t.Errorf("%s = %v, which does not name %s", verb, err, encoding)
			}
		}
	}
}

// Settings that say how the body of a function is read change nothing about add_task.
// Proves G296.
func TestAddTask_WorksUnderAnySettings(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, clean := newAddStore(t)
	pool := poolOf(t, clean, func(config *pgxpool.Config) {
		for name, value := range hostileSettings {
			config.ConnConfig.RuntimeParams[name] = value
		}
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "LOAD 'plpgsql'; SET plpgsql.variable_conflict = use_column; "+
				"SET plpgsql.extra_errors = 'all'; SET standard_conforming_strings = off; "+
				"SET client_encoding = LATIN1")
			return err
		}
	})
	for _, id := range []string{"a", "b", "c"} { // and with a plan that is kept
		mustAdd(t, pool, "action => 'act', body => 'b', id => $1, key => 'k', ensure => true, "+
			`headers => '{"a": "1"}', not_before => now() + '1 h'`, id)
		got := info(t, store, stint.TaskID(id))
		if wantTime(t, "NotBefore", got.NotBefore, time.Hour); got.Key != "k" {
			t.Errorf("add_task has inserted %+v", got)
		}
	}
}
