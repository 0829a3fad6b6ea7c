package taskstore_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/taskstore"
)

// everyCall calls everything once, and checks what comes of it.
func everyCall(t *testing.T, store *taskstore.Store) {
	t.Helper()
	tasks := add(t, store, "map", "a", "\x00\xff")
	claimed, found, err := store.Claim(t.Context(), taskstore.Claim{
		Client: ann, Group: "map", Duration: time.Hour, Depends: idsOf(tasks[:1]),
	})
	if err != nil || !found || string(claimed.Data) != "\x00\xff" {
		t.Fatalf("Claim = %+v, %t, %v", claimed, found, err)
	}
	update(t, store, taskstore.Request{
		Client: ann, Adds: []taskstore.Add{{Group: "reduce", TimeSpec: minute}},
		Updates: []taskstore.Change{{ID: claimed.ID, Data: []byte("b")}},
		Deletes: idsOf(tasks[:1]),
	})
	_, err = store.Update(t.Context(), taskstore.Request{Client: bob, Depends: idsOf(tasks[:1])})
	wantConflict(t, err, taskstore.ConflictError{Depends: idsOf(tasks[:1])})
	wantData(t, store, "map", "b")
	groups, err := store.Groups(t.Context())
	if err != nil || !slices.Equal(groups, []string{"map", "reduce"}) {
		t.Errorf("Groups = %q, %v", groups, err)
	}
	got, err := store.Group(t.Context(), "reduce", 1, true)
	if err != nil || len(got) != 1 {
		t.Fatalf("Group = %v, %v", got, err)
	}
	again, err := store.Tasks(t.Context(), []int64{tasks[0].ID, got[0].ID})
	if err != nil || again[0] != nil || again[1] == nil {
		t.Errorf("Tasks = %v, %v", again, err)
	}
	if _, found, err := store.Get(t.Context(), got[0].ID); err != nil || !found {
		t.Errorf("Get = %t, %v", found, err)
	}
}

func TestNew_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	wantErr(t, "New", errOf(taskstore.New(nil, taskstore.Options{})), stint.ErrInvalidArgument)
	for _, opts := range []taskstore.Options{
		{Durability: 2}, {Durability: -1}, {Schema: strings.Repeat("s", 64)}, {Schema: "\xff"},
	} {
		wantErr(t, "New", errOf(taskstore.New(pool, opts)), stint.ErrInvalidArgument)
	}
}

func TestStore_SaysThatItsTablesAreMissing(t *testing.T) {
	t.Parallel()
	store := openStore(t, testdb.NewEmpty(t), taskstore.Options{})
	wantErr(t, "Groups", errOf(store.Groups(t.Context())), stint.ErrSchemaVersion)
	_, err := store.Update(t.Context(), taskstore.Request{Client: ann})
	wantErr(t, "Update", err, stint.ErrSchemaVersion)
}

// The tables of the task store are all that it needs, whatever the version of the schema.
func TestStore_DoesNotLookAtTheVersionOfTheSchema(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	exec(t, pool, "DROP TABLE stint.stint_schema_version, stint.supported")
	everyCall(t, store)
}

func TestStore_WorksInASchemaOfAnyName(t *testing.T) {
	t.Parallel()
	const name = `Ann's "stint. schema`
	pool := testdb.NewEmpty(t)
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		return migrations.MigrateSchema(t.Context(), conn.Conn(), name)
	})
	wantErr(t, "MigrateSchema", err, nil)
	everyCall(t, openStore(t, pool, taskstore.Options{Schema: name}))
}

// Behind a pooler that knows no prepared statements, the driver sends its texts in other ways.
func TestStore_WorksInEveryExecMode(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) {
				config.ConnConfig.DefaultQueryExecMode = mode
				config.ConnConfig.RuntimeParams["bytea_output"] = "escape"
			})
			everyCall(t, openStore(t, pool, taskstore.Options{
				Durability: stint.Opportunistic,
			}))
		})
	}
}

// Who may create in a schema that the path names cannot have code of his run by the calls.
func TestStore_CallsNobodysFunctions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, path := range map[string]string{
		"behind": `"$user", evil`, "first": `evil, pg_catalog`,
	} {
		for _, mode := range []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol,
		} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				clean := testdb.New(t)
				testdb.Fake(t, clean)
				var mutex sync.Mutex
				var ran []string
				pool := poolOf(t, clean, func(config *pgxpool.Config) {
					config.ConnConfig.RuntimeParams["search_path"] = path
					config.ConnConfig.DefaultQueryExecMode = mode
					config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
						mutex.Lock()
						defer mutex.Unlock()
						ran = append(ran, notice.Message)
					}
				})
				everyCall(t, openStore(t, pool, taskstore.Options{
					Durability: stint.Opportunistic,
				}))
				mutex.Lock()
				defer mutex.Unlock()
				if len(ran) > 0 {
					t.Errorf("somebody else's code ran: %q", ran)
				}
			})
		}
	}
}

// Calls that write say so, whatever the default.
func TestStore_WritesWhereTransactionsReadByDefault(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	everyCall(t, openStore(t, pool, taskstore.Options{}))
}

// A call that fails gives its connection back in order, or not at all.
func TestStore_GoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	clean := testdb.New(t)
	pool := poolOf(t, clean, func(config *pgxpool.Config) { config.MaxConns = 1 })
	store := openStore(t, pool, taskstore.Options{})
	task := add(t, store, "g", "a")[0]
	exec(t, clean, "ALTER TABLE stint.taskstore_tasks ADD CHECK (data <> 'bad')")
	_, err := store.Update(t.Context(), taskstore.Request{
		Client: ann, Adds: []taskstore.Add{{Group: "g", Data: []byte("bad")}},
		Deletes: []int64{task.ID},
	})
	if err == nil {
		t.Fatal("Update succeeds")
	}
	wantData(t, store, "g", "a")
	update(t, store, taskstore.Request{Client: ann, Deletes: []int64{task.ID}})
}
