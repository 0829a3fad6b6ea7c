package stint_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// departures are the ways in which code of the caller's never returns to the store.
var departures = map[string]func(){
	"panics": func() { panic("the caller's") },
	"exits":  runtime.Goexit,
}

// departs makes a call in a goroutine of its own, and reports whether it did not return. It must
// then have been left in the way of the caller's code, and no other.
func departs(t *testing.T, how string, call func() error) bool {
	t.Helper()
	type end struct {
		returned  bool
		recovered any
	}
	ended := make(chan end, 1)
	go func() {
		var is end
		defer func() {
			is.recovered = recover()
			ended <- is
		}()
		_ = call()
		is.returned = true
	}()
	is := <-ended
	var want any
	if how == "panics" && !is.returned {
		want = "the caller's"
	}
	if is.recovered != want {
		t.Errorf("the call was left with %v, want %v", is.recovered, want)
	}
	return !is.returned
}

// wantNoneAcquired checks that the connections of a pool are back, and that it can be closed.
func wantNoneAcquired(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, soon, "all connections are back", func() bool {
		return pool.Stat().AcquiredConns() == 0
	})
	_, err := ends(t, "Close", start(func() (any, error) { pool.Close(); return nil, nil }))
	wantErr(t, "Close", err, nil)
}

// leaving is a stream of tasks, in whose place something else happens behind the first n.
func leaving(n int, leave func()) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for i := range n {
			task := stint.Task{ID: stint.TaskID(fmt.Sprint("streamed ", i)), Action: "act"}
			if !yield(task, nil) {
				return
			}
		}
		leave()
	}
}

// A sequence that panics, or whose goroutine ends, inserts nothing, leaves no transaction open and
// gives its connection back.
// Proves G6.
func TestInsertTasksFrom_LeavesNothingOfASequenceThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for how, leave := range departures {
		for _, n := range []int{0, 1, 100, 20_001} { // the last are behind a piece
			t.Run(fmt.Sprint(how, " behind ", n), func(t *testing.T) {
				t.Parallel()
				direct := testdb.New(t)
				pool := poolOf(t, direct, func(config *pgxpool.Config) { config.MaxConns = 2 })
				store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
				insertFrom := func(store *stint.Store) {
					if !departs(t, how, func() error {
						return errOf(store.InsertTasksFrom(t.Context(), leaving(n, leave)))
					}) {
						t.Error("InsertTasksFrom returned")
					}
				}
				times := 3 // more often than the pool has connections
				if n > 1000 {
					times = 1
				}
				for range times {
					insertFrom(store)
				}
				tx := begin(t, pool)
				inside := store.WithTx(tx)
				insertFrom(inside)
				insert(t, inside, stint.Task{ID: "behind", Action: "act"})
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
				if n := yields[int](t, direct, "SELECT count(*) FROM stint.tasks"); n != 1 {
					t.Errorf("%d tasks, want one", n)
				}
				wantErr(t, "Close", store.Close(t.Context()), nil)
				wantNoneAcquired(t, pool)
				checkStore(t, direct)
			})
		}
	}
}

// A leaver is a tracer of the caller's, which the driver calls within transactions. It leaves at
// the call with that number of those that are made for a verb with a traced context.
type leaver struct {
	leave func()
	at    int64
	calls atomic.Int64
}

type traced struct{}

func (l *leaver) tick(ctx context.Context) {
	if ctx.Value(traced{}) != nil && l.calls.Add(1) == l.at {
		l.leave()
	}
}

func (l *leaver) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	l.tick(ctx)
	return ctx
}

func (l *leaver) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	l.tick(ctx)
}

func (l *leaver) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	l.tick(ctx)
	return ctx
}

func (l *leaver) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchQueryData) {
	l.tick(ctx)
}

func (l *leaver) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	l.tick(ctx)
}

func (l *leaver) TraceCopyFromStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData,
) context.Context {
	l.tick(ctx)
	return ctx
}

func (l *leaver) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	l.tick(ctx)
}

// severalRoundTrips are verbs that ask the database several times in a transaction.
func severalRoundTrips(ctx context.Context, store *stint.Store) map[string]func() error {
	tasks := []stint.Task{{ID: "old", Action: "act"}}
	return map[string]func() error{
		"InsertTasks by COPY": func() error { return store.InsertTasks(ctx, numbered("t", 200)) },
		"InsertTasks behind another": func() error {
			return store.InsertTasks(ctx, []stint.Task{after("new", "old")})
		},
		"InsertTasksFrom": func() error {
			return errOf(store.InsertTasksFrom(ctx, stream(numbered("t", 200), nil)))
		},
		"ReplaceTasks": func() error { return store.ReplaceTasks(ctx, tasks) },
		"AbortTasks":   func() error { return errOf(store.AbortTasks(ctx, ids("old"), "")) },
		"DeleteTasks":  func() error { return errOf(store.DeleteTasks(ctx, ids("old"))) },
		"RetryTasks":   func() error { return errOf(store.RetryTasks(ctx, ids("done"))) },
		"Debounce": func() error {
			return store.Debounce(ctx, tasks[0], time.Hour, time.Hour)
		},
		"SetLimits": func() error {
			return store.SetLimits(ctx, "act", stint.Limits{Concurrency: 1})
		},
		"EnsureSchedules": func() error {
			return store.EnsureSchedules(ctx, []stint.Schedule{{
				Name: "s", Spec: "@daily", Tasks: []stint.Task{{Action: "act"}},
			}})
		},
		"ListTasks": func() error { return errOf(store.ListTasks(ctx, stint.Filter{})) },
		"Check":     func() error { return errOf(store.Check(ctx)) },
	}
}

// A tracer of the caller's that panics, or ends the goroutine, at any of its calls leaves no
// transaction open and no connection taken, and a verb is made as a whole or not at all.
// Proves G6.
func TestVerbs_LeaveNothingOfATracerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	hows := slices.Sorted(maps.Keys(departures))
	verbs := slices.Sorted(maps.Keys(severalRoundTrips(t.Context(), nil)))
	for _, c := range testrun.Third(testrun.Pairs(hows, verbs), 0) {
		t.Run(c.A+" in "+c.B, func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			tracer := &leaver{leave: departures[c.A]}
			pool := poolOf(t, direct, func(config *pgxpool.Config) {
				config.MaxConns = 2
				config.ConnConfig.Tracer = tracer
			})
			opts := stint.Options{Maintenance: stint.MaintainNever}
			truth := openStore(t, direct, opts)
			insert(t, truth, stint.Task{ID: "old", Action: "act"},
				stint.Task{ID: "done", Action: "act"})
			wantErr(t, "AbortTasks", errOf(truth.AbortTasks(t.Context(), ids("done"), "")), nil)
			ctx := context.WithValue(t.Context(), traced{}, true)
			for departed := true; departed; {
				store := openStore(t, pool, opts) // which has asked nothing yet
				tracer.at += 1 + tracer.at/8
				tracer.calls.Store(0)
				departed = departs(t, c.A, severalRoundTrips(ctx, store)[c.B])
				eventually(t, soon, "all connections are back", func() bool {
					return pool.Stat().AcquiredConns() == 0
				})
				wantErr(t, "Close", store.Close(t.Context()), nil)
			}
			wantNoneAcquired(t, pool)
			checkStore(t, direct)
		})
	}
}

func ids(ids ...stint.TaskID) []stint.TaskID { return ids }
