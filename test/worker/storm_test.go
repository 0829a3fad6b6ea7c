package worker_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A storm breaks connections of a pool again and again.
type storm struct {
	name  string
	conns int32
	// begin begins the storm, and returns the pool whose connections it breaks.
	begin func(t *testing.T, spared *pgxpool.Pool, conns int32) (pool *pgxpool.Pool, stop func())
}

// sessionsEnded ends all sessions of a database but those that are spared, so many times a second.
func sessionsEnded(
	times int,
) func(t *testing.T, spared *pgxpool.Pool, conns int32) (*pgxpool.Pool, func()) {
	return func(t *testing.T, spared *pgxpool.Pool, conns int32) (*pgxpool.Pool, func()) {
		t.Helper()
		config := spared.Config()
		config.MaxConns = conns
		config.ConnConfig.RuntimeParams["application_name"] = "stormy"
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool, repeatedly(time.Second/time.Duration(times), 5*times, func() {
			_, err := spared.Exec(context.WithoutCancel(t.Context()),
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
					"WHERE datname = current_database() "+
					"AND application_name = 'stormy'")
			if err != nil {
				t.Errorf("pg_terminate_backend: %v", err)
			}
		})
	}
}

// answersLost loses the answers to some of the requests, one in so many.
func answersLost(
	one int,
) func(t *testing.T, spared *pgxpool.Pool, conns int32) (*pgxpool.Pool, func()) {
	return func(t *testing.T, spared *pgxpool.Pool, conns int32) (*pgxpool.Pool, func()) {
		t.Helper()
		proxy := pgcut.New(t, spared)
		stop := make(chan struct{})
		var losing sync.WaitGroup
		losing.Go(func() {
			for {
				trap := proxy.Cut(pgcut.AtReply, func(pgcut.Request) bool {
					return rand.IntN(one) == 0
				})
				select {
				case <-trap.Reached():
				case <-stop:
					return
				}
			}
		})
		return proxy.Pool(t, conns), func() {
			close(stop)
			losing.Wait()
		}
	}
}

// repeatedly does work at intervals, a number of times, or until it is stopped.
func repeatedly(every time.Duration, times int, work func()) (stop func()) {
	stopped := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for range times {
			select {
			case <-tick.C:
				work()
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		working.Wait()
	}
}

// However often connections break, no task loses a try that never began, and when Run has returned,
// nothing is in progress.
// Proves G285.
func TestWorker_LosesNoTryInAStorm(t *testing.T) { //nolint:paralleltest // needs the machine
	testrun.Long(t)
	storms := []storm{
		{"1 connection, ended 4 times a second", 1, sessionsEnded(4)},
		{"4 connections, ended 4 times a second", 4, sessionsEnded(4)},
		{"16 connections, ended 10 times a second", 16, sessionsEnded(10)},
		{"4 connections, one answer in 20 lost", 4, answersLost(20)},
	}
	for _, storm := range testrun.Some(storms) { //nolint:paralleltest // as above
		t.Run(storm.name, func(t *testing.T) {
			weather(t, storm)
		})
	}
}

// weather performs tasks with one try in a storm.
func weather(t *testing.T, storm storm) {
	t.Helper()
	const slots, tasks, takes = 50, 1000, 50 * time.Millisecond
	direct := testdb.New(t)
	inserter := newStoreOn(t, direct, stint.Options{Maintenance: stint.MaintainNever})
	all := several(tasks, "act")
	for i := range all {
		all[i].MaxTries = 1
	}
	insert(t, inserter, all...)
	pool, stop := storm.begin(t, direct, storm.conns)
	stop = sync.OnceFunc(stop)
	defer stop()
	var begun sync.Map
	w, err := worker.New(newStore(t, pool),
		worker.Options{Concurrency: slots, Lease: time.Minute, StopGrace: time.Minute},
		worker.Handle("act", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			begun.Store(task.ID, true)
			<-time.After(takes)
			return worker.Result{}, nil
		}))
	wantErr(t, "New", err, nil)
	since := time.Now()
	end := run(t, w)
	late := time.After(patience)
	for count(t, direct, 1, 2, 3) > 0 {
		select {
		case <-late:
			t.Fatalf("after %v %d tasks are left", patience, count(t, direct, 1, 2, 3))
		case <-time.After(20 * time.Millisecond):
		}
	}
	took := time.Since(since)
	wantErr(t, "Run", end(), nil)
	if n := count(t, direct, 3); n > 0 {
		t.Errorf("%d tasks are in progress after Run", n)
	}
	t.Logf("%.0f tasks a second", tasks/took.Seconds())
	rows, err := direct.Query(t.Context(), "SELECT id FROM stint.task_states WHERE state > 10")
	wantErr(t, "Query", err, nil)
	aborted, err := pgx.CollectRows(rows, pgx.RowTo[stint.TaskID])
	wantErr(t, "CollectRows", err, nil)
	aborted = slices.DeleteFunc(aborted, func(id stint.TaskID) bool {
		_, ok := begun.Load(id)
		return ok
	})
	if len(aborted) > 0 {
		t.Errorf("%d tasks lost the only try without beginning: %q", len(aborted), aborted)
	}
}

// count counts the tasks in some states, as the view numbers them.
func count(t *testing.T, pool *pgxpool.Pool, states ...int16) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(),
		"SELECT count(*) FROM stint.task_states WHERE state = ANY ($1)", states).Scan(&n)
	wantErr(t, "count", err, nil)
	return n
}

// A look for tasks that is under way when the worker stops is answered, and what it owns is given
// back before Run returns.
// Proves G288.
func TestRun_LeavesNothingOfALookUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	proxy := pgcut.New(t, direct)
	store := newStore(t, proxy.Pool(t, 4))
	insert(t, newStoreOn(t, direct, stint.Options{Maintenance: stint.MaintainNever}),
		stint.Task{ID: "a", Action: "act", MaxTries: 1})
	w, err := worker.New(store, worker.Options{}, worker.Handle("act", done))
	wantErr(t, "New", err, nil)
	trap := proxy.Hold(pgcut.AtReply, pgcut.Executes("own_tasks"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-trap.Reached()
	cancel()
	trap.Release()
	wantErr(t, "Run", <-ended, nil)
	if n := count(t, direct, 2); n != 1 {
		t.Errorf("%d tasks are ready after Run, want 1", n)
	}
}
