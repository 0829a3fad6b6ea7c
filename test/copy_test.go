package stint_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// newCopy is a store on what looks like a restored dump, with a task.
func newCopy(t *testing.T, opts stint.Options) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	_, err := store.OwnTasks(t.Context(), "original", 1, []string{"other"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	exec(t, pool, "UPDATE stint.origin SET environment = environment") // as COPY does
	pool.Reset()
	opts.Maintenance = stint.MaintainNever
	return openStore(t, pool, opts), pool
}

func fetchOne(ctx context.Context, store *stint.Store) ([]stint.OwnedTask, error) {
	return store.OwnTasks(ctx, "a", 1, []string{"act"}, time.Hour)
}

// The caller's transaction is refused what the store is, and goes on.
// Proves G331.
func TestCopy_RefusesInTheCallersTransactionToo(t *testing.T) {
	t.Parallel()
	store, pool := newCopy(t, stint.Options{})
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := fetchOne(t.Context(), store.WithTx(tx))
		wantErr(t, "OwnTasks", err, stint.ErrCopy)
		return store.WithTx(tx).InsertTasks(t.Context(), []stint.Task{{ID: "b", Action: "act"}})
	})
	wantErr(t, "InsertTasks", err, nil)
	wantErr(t, "Adopt in a transaction", pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return stint.Adopt(t.Context(), store.WithTx(tx))
	}), stint.ErrInvalidArgument)
}

// Proves G331.
func TestCopy_LetsAWorkerGoOnOnceItIsAdopted(t *testing.T) {
	t.Parallel()
	store, _ := newCopy(t, stint.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := worker.New(store, worker.Options{
		Logger: slog.New(slog.DiscardHandler),
	},
		worker.Handle("act", func(context.Context, *worker.Task) (worker.Result, error) {
			cancel()
			return worker.Result{}, nil
		}))
	wantErr(t, "New", err, nil)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	_, err = fetchOne(t.Context(), store)
	wantErr(t, "OwnTasks", err, stint.ErrCopy)
	wantErr(t, "Adopt", stint.Adopt(t.Context(), store), nil)
	wantErr(t, "Run", <-ended, nil)
}

// Proves G331.
func TestCopy_ActsIfAnOptionSaysSo(t *testing.T) {
	t.Parallel()
	store, _ := newCopy(t, stint.Options{ActInCopies: true})
	tasks, err := fetchOne(t.Context(), store)
	if err != nil || len(tasks) != 1 {
		t.Errorf("OwnTasks = %v, %v", tasks, err)
	}
	wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
	stats, err := store.Stats(t.Context())
	if err != nil || stats.Copy != "" {
		t.Errorf("Stats.Copy = %q, %v", stats.Copy, err)
	}
}

// The first store with a name names the environment. Others with none are not refused.
// Proves G331.
func TestEnvironment_IsThatOfTheFirstStoreThatNamesOne(t *testing.T) {
	t.Parallel()
	unnamed, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	named := func(environment string) *stint.Store {
		return openStore(t, pool, stint.Options{
			Environment: environment, Maintenance: stint.MaintainNever,
		})
	}
	own := func(store *stint.Store, want error) {
		t.Helper()
		_, err := fetchOne(t.Context(), store)
		wantErr(t, "OwnTasks", err, want)
		if want != nil && !strings.Contains(err.Error(), `"production"`) {
			t.Errorf("OwnTasks = %v, want the name", err)
		}
	}
	own(unnamed, nil)
	own(named("production"), nil)
	own(named("staging"), stint.ErrCopy)
	own(named("production"), nil)
	own(unnamed, nil)
	wantErr(t, "Adopt", stint.Adopt(t.Context(), named("staging")), nil)
	own(named("staging"), nil)

	// Two that name it at once do not stop each other.
	exec(t, pool, `INSERT INTO stint.origin (written_by, database_id, environment)
		SELECT pg_current_xact_id()::xid, oid, 'production'
		FROM pg_database WHERE datname = current_database()`)
	own(named("staging"), nil)
	own(named("production"), nil)
	own(named("test"), stint.ErrCopy)
	_, err := stint.New(pool, stint.Options{Environment: strings.Repeat("x", 256)})
	wantErr(t, "New", err, stint.ErrTooLarge)
}

// Two rows say where the tasks belong, and each connection is asked once: a fetch costs no more,
// nor does one in the caller's transaction. As long as there are no rows, such a one asks once.
func TestCopy_IsAskedOnceAConnection(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	spied, spy := spyOn(t, pool, 1)
	opened := func() *stint.Store {
		return openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	}
	store := opened()
	inTx := func(store *stint.Store) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), spied, func(tx pgx.Tx) error {
			_, err := fetchOne(t.Context(), store.WithTx(tx))
			return err
		})
		wantErr(t, "OwnTasks", err, nil)
	}
	asked := func(want int) {
		t.Helper()
		if got := spy.count("read_origin"); got != want {
			t.Errorf("the database was asked %d times, want %d", got, want)
		}
	}
	inTx(store)
	inTx(store)
	asked(2)
	for range 10 {
		_, err := fetchOne(t.Context(), store)
		wantErr(t, "OwnTasks", err, nil)
	}
	inTx(store)
	asked(3)
	store = opened() // which asks anew
	inTx(store)
	inTx(store)
	asked(4)
	if n := yields[int64](t, pool, "SELECT count(*) FROM stint.origin"); n != 2 {
		t.Errorf("origin has %d rows", n)
	}
}
