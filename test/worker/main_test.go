package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(poisonedDatabase); url != "" {
		log.Fatal(performPoison(url))
	}
	testdb.Main(m)
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// soon makes a worker try again at once.
var soon = worker.Retry{Base: time.Microsecond, Max: time.Microsecond}

func newStore(t *testing.T, pool *pgxpool.Pool) *stint.Store {
	t.Helper()
	return newStoreOn(t, pool, stint.Options{})
}

func newStoreOn(t *testing.T, pool *pgxpool.Pool, options stint.Options) *stint.Store {
	t.Helper()
	options.PollInterval = 20 * time.Millisecond
	store, err := stint.New(pool, options)
	if err != nil {
		t.Fatal(err)
	}
	pools.Store(store, pool)
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return store
}

// newStoreAndPool returns a store on a database of its own. At the end of the test the tables must
// agree with one another.
func newStoreAndPool(t *testing.T) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testdb.New(t)
	t.Cleanup(func() {
		store, err := stint.New(pool, stint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := store.Check(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Errorf("Check = %v", err)
		}
		for _, inconsistency := range found {
			t.Error(inconsistency)
		}
	})
	return newStore(t, pool), pool
}

// A fallible pool is one whose database cannot be reached while it is down.
func fallible(t *testing.T, pool *pgxpool.Pool) (through *pgxpool.Pool, down *atomic.Bool) {
	t.Helper()
	down = &atomic.Bool{}
	config := pool.Config()
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		if down.Load() {
			return true, errors.New("the database is down")
		}
		return true, nil
	}
	through, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	return through, down
}

func newWorker(
	t *testing.T, store *stint.Store, options worker.Options, handlers ...worker.Registration,
) *worker.Worker {
	t.Helper()
	if options.Retry == (worker.Retry{}) {
		options.Retry = soon
	}
	if options.StopGrace == 0 {
		options.StopGrace = time.Millisecond
	}
	w, err := worker.New(queueOf(t, store), options, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a worker until the test ends or stop is called, which returns what Run returned.
func run(t *testing.T, w *worker.Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var err error
	go func() {
		err = w.Run(ctx)
		close(ended)
	}()
	stop = func() error {
		cancel()
		<-ended
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func insert(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	for i := range tasks {
		tasks[i].PostResult = true
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

func several(n int, action string) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%s/%03d", action, i)), Action: action}
	}
	return tasks
}

// finished waits until tasks have finished.
func finished(t *testing.T, store *stint.Store, ids ...stint.TaskID) []stint.TaskInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	infos, err := store.WaitForTasks(ctx, ids)
	if err != nil {
		infos, _ := store.GetTasks(t.Context(), ids)
		for _, info := range infos {
			if info.FinishedAt.IsZero() {
				t.Logf("unfinished: %+v", info)
			}
		}
		t.Fatalf("WaitForTasks = %v", err)
	}
	return infos
}

func info(t *testing.T, store *stint.Store, id stint.TaskID) stint.TaskInfo {
	t.Helper()
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{id})
	if err != nil {
		t.Fatal(err)
	}
	return infos[0]
}

// receive waits for a signal.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func wantErr(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s = %v, want %v", call, got, want)
	}
}

// recorder returns a logger and a function that waits until it is told a message, each of which
// counts once.
func recorder(t *testing.T) (*slog.Logger, func(t *testing.T, message string) slog.Record) {
	t.Helper()
	records := make(chan slog.Record, 10_000)
	var held []slog.Record
	logged := func(t *testing.T, message string) slog.Record {
		t.Helper()
		is := func(r slog.Record) bool { return r.Message == message }
		late := time.After(patience)
		for {
			if i := slices.IndexFunc(held, is); i >= 0 {
				record := held[i]
				held = slices.Delete(held, i, i+1)
				return record
			}
			select {
			case record := <-records:
				held = append(held, record)
			case <-late:
				t.Fatalf("waited in vain for the record %q", message)
			}
		}
	}
	return slog.New(recording(records)), logged
}

type recording chan<- slog.Record

func (r recording) Enabled(context.Context, slog.Level) bool { return true }

func (r recording) Handle(_ context.Context, record slog.Record) error {
	r <- record
	return nil
}

func (r recording) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r recording) WithGroup(string) slog.Handler      { return r }

// attr is an attribute of a record.
func attr(record slog.Record, key string) (value slog.Value) {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value
		}
		return true
	})
	return value
}

func done(context.Context, *worker.Task) (worker.Result, error) { return worker.Result{}, nil }
