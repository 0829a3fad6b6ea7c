package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// Where no notification arrives, what is waited for is found within a poll interval.
// Proves R19.
func TestNotifications_LostCostAPollInterval(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const poll, rounds = 200 * time.Millisecond, 15
	pool := testdb.New(t)
	proxy := pgcut.New(t, pool)
	proxy.DropNotifications()
	spied, spy := spyOn(t, proxy.Pool(t, 2), 2)
	h := &heardStore{pool: pool, spy: spy, Store: openStore(t, spied, stint.Options{
		PollInterval: poll, Maintenance: stint.MaintainNever,
	})}
	truth := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	var waits, awaits []time.Duration
	for i := range rounds {
		id := stint.TaskID(fmt.Sprint(i))
		awaiting := h.await(t.Context(), t, 1)
		inserted := time.Now()
		insert(t, truth, stint.Task{ID: id, Action: "act", PostResult: true})
		owned, err := ends(t, "WaitToOwnTasks", awaiting)
		wantErr(t, "WaitToOwnTasks", err, nil)
		awaits = append(awaits, time.Since(inserted))
		waiting := h.waitFor(t, id)
		ctx, done := h.OwnershipContext(t.Context(), owned[0])
		ended := time.Now()
		wantErr(t, "AbortTasks", errOf(truth.AbortTasks(t.Context(), []stint.TaskID{id}, "")), nil)
		_, err = ends(t, "WaitForTask", waiting)
		wantErr(t, "WaitForTask", err, nil)
		waits = append(waits, time.Since(ended))
		wantLoss(ctx, t, id)
		done()
	}
	logDistribution(t, "waits", waits)
	logDistribution(t, "awaits", awaits)
	// The interval has a jitter of a quarter. Of so many, the machine leaves one alone.
	const limit = poll*5/4 + time.Second
	if fastest := max(slices.Min(waits), slices.Min(awaits)); fastest > limit {
		t.Errorf("none took less than %v, want some within %v", fastest, limit)
	}
}

// T6: a listener that stays connected, but hears nothing any more, is noticed and replaced.
// Proves G83.
func TestNotifications_ADeafListenerIsReplaced(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, deafen := range map[string]func(*testing.T, *pgcut.Proxy, int32){
		"no answers": func(t *testing.T, proxy *pgcut.Proxy, pid int32) {
			t.Helper()
			if !proxy.Stall(uint32(pid)) {
				t.Fatal("there is no such session")
			}
		},
		"no notifications": func(_ *testing.T, proxy *pgcut.Proxy, _ int32) {
			proxy.DropNotifications()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			proxy := pgcut.New(t, pool)
			h := newHeardStoreOn(t, proxy.Pool(t, 2), stint.Options{})
			h.pool = pool
			insert(t, h.Store, stint.Task{ID: "w", Action: "none", PostResult: true})
			waiting := h.waitFor(t, "w")
			awaiting := h.await(t.Context(), t, 1)
			before := sessionPIDs(t, pool)
			began := time.Now()
			deafen(t, proxy, before[0])
			truth := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			wantErr(t, "AbortTasks",
				errOf(truth.AbortTasks(t.Context(), []stint.TaskID{"w"}, "")), nil)
			insert(t, truth, after("a"))
			_, err := ends(t, "WaitForTask", waiting) // the new session makes all look again
			wantErr(t, "WaitForTask", err, nil)
			wantOwned(t, awaiting, "a")
			t.Logf("replaced after %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// A server that is frozen answers nothing, and its connections stand. Whoever waits must come to
// the server that has taken over, and not wait for the old one.
// Proves G82.
func TestWaits_DoNotWaitForAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	proxy := pgcut.New(t, pool)
	store := openStore(t, proxy.Pool(t, 3), stint.Options{
		PollOnly: true, PollInterval: 50 * time.Millisecond, Maintenance: stint.MaintainNever,
	})
	truth := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, truth, stint.Task{ID: "w", Action: "none", PostResult: true}, after("o"))
	ctx, done := store.OwnershipContext(t.Context(), ownAs(t, truth, "owner", 1)[0])
	defer done()
	looks := map[string]*pgcut.Trap{}
	for _, name := range []string{"still_owned", "waited_tasks", "next_due"} {
		looks[name] = proxy.Hold(pgcut.AtReply, pgcut.Executes(name))
		defer looks[name].Cut()
	}
	waiting := start(func() (stint.TaskInfo, error) { return store.WaitForTask(t.Context(), "w") })
	awaiting := start(func() ([]stint.OwnedTask, error) {
		for {
			owned, err := store.WaitToOwnTasks(t.Context(), "a", 1, []string{"act"}, time.Hour)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				return owned, err
			}
		}
	})
	for _, look := range looks {
		<-look.Reached()
	}
	wantErr(t, "AbortTasks",
		errOf(truth.AbortTasks(t.Context(), []stint.TaskID{"w", "o"}, "")), nil)
	insert(t, truth, after("a"))
	_, err := ends(t, "WaitForTask", waiting)
	wantErr(t, "WaitForTask", err, nil)
	wantOwned(t, awaiting, "a")
	wantLoss(ctx, t, "o")
}

// A load is a network of callers that insert, own, return and wait, until they are told to stop.
// Each task is performed by whoever gets it and waited for by whoever inserted it.
type load struct {
	stop     chan struct{}
	group    sync.WaitGroup // of the waiters
	workers  sync.WaitGroup
	halt     context.CancelFunc // of the workers
	inserted atomic.Int64
	waited   atomic.Int64
	longest  atomic.Int64
}

// again makes a call until it succeeds, or reports to have succeeded before.
func again(t *testing.T, what string, done error, call func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	for {
		err := call()
		if err == nil || done != nil && errors.Is(err, done) {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s = %v, for %v", what, err, 2*soon)
			return
		}
		select { // the server may be away
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startLoad starts callers of a store, which may fail at times.
func startLoad(t *testing.T, store *stint.Store, waiters, workers int) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	stopped := func() bool {
		select {
		case <-l.stop:
			return true
		case <-t.Context().Done(): // the test has failed
			return true
		default:
			return false
		}
	}
	for w := range waiters {
		l.group.Go(func() {
			for i := 0; !stopped(); i++ {
				id := stint.TaskID(fmt.Sprintf("w%d %d", w, i))
				again(t, "InsertTasks", stint.ErrTaskExists, func() error {
					return store.InsertTasks(t.Context(), []stint.Task{
						{ID: id, Action: "act", PostResult: true},
					})
				})
				l.inserted.Add(1)
				began := time.Now()
				again(t, "WaitForTask", nil, func() error {
					_, err := store.WaitForTask(t.Context(), id)
					return err
				})
				took := int64(time.Since(began))
				for longest := l.longest.Load(); took > longest; longest = l.longest.Load() {
					l.longest.CompareAndSwap(longest, took)
				}
				l.waited.Add(1)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.halt = cancel
	t.Cleanup(cancel)
	for range workers {
		l.workers.Go(func() {
			for ctx.Err() == nil {
				owned, err := store.WaitToOwnTasks(ctx, "actor", 10, []string{"act"}, time.Second)
				if err != nil {
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
					}
					continue
				}
				again(t, "ReturnTasks", nil, func() error {
					_, err := store.ReturnTasks(t.Context(), completed(owned))
					return err
				})
			}
		})
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	return l
}

// end stops the load and waits until everybody has got what it waits for.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	_, _ = ends(t, "the load", start(func() (struct{}, error) {
		l.group.Wait()
		l.halt() // the last answers may be on their way to the workers
		l.workers.Wait()
		return struct{}{}, nil
	}))
	t.Logf("%d tasks, the longest wait took %v", l.inserted.Load(),
		time.Duration(l.longest.Load()).Round(time.Millisecond))
	if l.waited.Load() != l.inserted.Load() || l.inserted.Load() == 0 {
		t.Errorf("%d of %d tasks were waited for", l.waited.Load(), l.inserted.Load())
	}
}

// F3: the session is ended every 200 ms, and nothing hangs, nothing is lost, nothing is left.
//
// Proves G83.
//
//nolint:paralleltest // looks at all goroutines
func TestNotifications_SurviveTheDeathOfTheSession(t *testing.T) {
	testrun.Long(t)
	const waiters = 200
	kills := testrun.Rounds(20)
	outer := testdb.New(t)
	leaks := goleak.IgnoreCurrent()
	t.Run("under load", func(t *testing.T) {
		spied, spy := spyOn(t, outer, 6)
		store := openStore(t, spied, stint.Options{})
		l := startLoad(t, store, waiters, 10)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		killed := 0
		for killed < kills {
			<-tick.C
			for _, pid := range sessionPIDs(t, outer) {
				exec(t, outer, "SELECT pg_terminate_backend($1)", pid)
				killed++
			}
		}
		l.end(t)
		t.Logf("%d sessions were ended, %d were made", killed, spy.count("lock_session"))
		n := yields[int](t, outer, "SELECT count(*) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND application_name = 'spied'")
		if n > 9 {
			t.Errorf("%d connections, want the 6 of the pool, the session and two for owners", n)
		}
	})
	goleak.VerifyNone(t, leaks)
	checkStore(t, outer)
}

// F28: what others send on the channel is a hint at best.
// Proves G84.
func TestNotifications_SurviveJunk(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	insert(t, h.Store, stint.Task{ID: "w", Action: "none", PostResult: true}, stint.Task{
		ID: "o", Action: "own",
	})
	owned, err := h.OwnTasks(t.Context(), "actor", 1, []string{"own"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	ctx, done := h.OwnershipContext(t.Context(), owned[0])
	defer done()
	waiting := h.waitFor(t, "w")
	awaiting := h.await(t.Context(), t, 1)
	var keys strings.Builder
	for key := range 1500 {
		fmt.Fprint(&keys, " ", key)
	}
	junk := []string{
		"", " ", "ready", "ready ", "ready act", "ready act act", "finished", "finished ",
		"finished x", "finished -1 0 1 99999999999999999999999", "finished \x01\x02\x7f",
		"finished" + keys.String(), "lost" + keys.String(), "lost 1 x 2", "lost",
		"ping", "ping ping",
		"unknown " + strings.Repeat("x", 7000),
		strings.Repeat("finished ", 880),
		strings.Repeat("\u00e9", 3900), "\ufeffready act", "READY ACT",
		"finished" + strings.Repeat(" 1", 3900),
	}
	spammer, err := pgx.ConnectConfig(t.Context(), h.pool.Config().ConnConfig)
	wantErr(t, "connect", err, nil)
	defer spammer.Close(t.Context())
	for range testrun.Rounds(100) {
		batch := &pgx.Batch{}
		for range 20 {
			for _, payload := range junk {
				batch.Queue("SELECT pg_notify('stint', $1)", fmt.Sprintf("%s%s", payload,
					map[bool]string{true: " ", false: ""}[rand.IntN(2) == 0]))
			}
		}
		wantErr(t, "pg_notify", spammer.SendBatch(t.Context(), batch).Close(), nil)
	}
	h.notified(t) // behind all of it
	wantGoingOn(t, "WaitForTask", waiting)
	wantGoingOn(t, "WaitToOwnTasks", awaiting)
	wantOwning(ctx, t, "after the junk")
	pids := sessionPIDs(t, h.pool)
	insert(t, h.Store, after("a"))
	wantOwned(t, awaiting, "a")
	wantErr(t, "AbortTasks", errOf(h.AbortTasks(t.Context(), []stint.TaskID{"w", "o"}, "")), nil)
	_, err = ends(t, "WaitForTask", waiting)
	wantErr(t, "WaitForTask", err, nil)
	wantLoss(ctx, t, "o")
	if n := len(pids); n != 1 {
		t.Errorf("%d sessions, want the one", n)
	}
	if lost := h.spy.count("lock_session"); lost != 1 {
		t.Errorf("the session was made %d times", lost)
	}
}

// The channel is named like the schema, so stores on two schemas of a database do not meet. All
// else works there as well.
func TestNotifications_TravelInASchemaOfAnyName(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	for _, schema := range []string{
		`Odd "name"'s.x`, "select", "sch\u00e9ma", strings.Repeat("x", 63),
	} {
		conn, err := pool.Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
		wantErr(t, "Migrate", migrations.MigrateSchema(t.Context(), conn.Conn(), schema), nil)
		conn.Release()
		spied, spy := spyOn(t, pool, 4)
		store := openStore(t, spied, stint.Options{
			Schema: schema, Maintenance: stint.MaintainNever, PollInterval: pollNever,
		})
		_, err = ends(t, "RegisterActor", start(func() (struct{}, error) {
			return struct{}{}, store.RegisterActor(t.Context(), "actor", []string{"act"})
		}))
		wantErr(t, "RegisterActor", err, nil)
		actors, err := store.ListActors(t.Context())
		if err != nil || len(actors) != 1 {
			t.Errorf("ListActors = %v, %v", actors, err)
		}
		for i := range 2 { // the second one finds the session listening
			updates := spy.count("attend_session")
			awaiting := start(func() ([]stint.OwnedTask, error) {
				return store.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
			})
			if i == 0 {
				spy.sees(t, "attend_session", updates+1)
			}
			id := stint.TaskID(fmt.Sprint(i))
			insert(t, store, after(id))
			wantOwned(t, awaiting, id)
		}
		insert(t, store, numbered("t", 100)...)
		owned := own(t, store, 1000)
		if len(owned) != 100 {
			t.Errorf("in schema %q %d tasks can be owned, want 100", schema, len(owned))
		}
		complete(t, store, owned...)
		maintain(t, store)
	}
}

// A notification is only a hint: that it cannot be sent is no failure of the verb that did what it
// was to tell of.
// Proves G84.
func TestVerbs_SucceedThoughNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, "ALTER TABLE stint.sessions RENAME TO elsewhere")
	exec(t, pool, "INSERT INTO stint.elsewhere (id, grace, topics) VALUES (1, '1 s', '{}')")
	exec(t, pool, "CREATE VIEW stint.sessions AS "+
		"SELECT ARRAY[(1 / (id - id))::text] AS topics FROM stint.elsewhere")
	t.Cleanup(func() {
		for _, statement := range []string{
			"DROP VIEW stint.sessions", "ALTER TABLE stint.elsewhere RENAME TO sessions",
		} {
			if _, err := pool.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Error(err)
			}
		}
	})
	posting := stint.Task{ID: "p", Action: "act", PostResult: true, Priority: 1}
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{posting}), nil)
	quiet := func() { // nothing is being told, so the next verb tries to
		t.Helper()
		another := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		store = another
	}
	quiet()
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), numbered("t", 100)), nil)
	quiet()
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{posting}), nil)
	quiet()
	task := ownOne(t, store)
	quiet()
	err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
	quiet()
	task = ownOne(t, store)
	err = store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusPending)
	wantErr(t, "ReturnTask", err, nil)
	quiet()
	task = ownOne(t, store)
	err = errOf(store.AbortTasks(t.Context(), []stint.TaskID{task.ID, "t000050"}, ""))
	wantErr(t, "AbortTasks", err, nil)
	quiet()
	n, err := store.InsertTasksFrom(t.Context(), stream(numbered("s", 100), nil))
	if err != nil || n != 100 {
		t.Errorf("InsertTasksFrom = %d, %v", n, err)
	}
	wantState(t, store, stint.StateReady, "s000099", "t000099")
	wantState(t, store, stint.StateAborted, "t000050", task.ID)
}

// F1: the server is stopped, stays away for a while, and is started again.
// Proves G83.
func TestNotifications_SurviveARestartOfTheServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	//nolint:usetesting // t.TempDir is closed to the account of the server
	dir, err := os.MkdirTemp("", "stint-restart-")
	wantErr(t, "MkdirTemp", err, nil)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	wantErr(t, "Chmod", os.Chmod(dir, 0o711), nil)
	config := localpg.Config{
		Dir: filepath.Join(dir, "server"), Settings: map[string]string{"fsync": "off"},
	}
	server, err := localpg.Start(t.Context(), config)
	wantErr(t, "Start", err, nil)
	t.Cleanup(func() { wantErr(t, "stop", server.Close(), nil) })
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	wantErr(t, "connect", err, nil)
	wantErr(t, "Migrate", migrations.Migrate(t.Context(), conn), nil)
	wantErr(t, "close", conn.Close(t.Context()), nil)
	pool, err := pgxpool.New(t.Context(), server.URL("postgres"))
	wantErr(t, "pool", err, nil)
	t.Cleanup(pool.Close)
	h := newHeardStoreOn(t, pool, stint.Options{Maintenance: stint.MaintainAlways})
	insert(t, h.Store, stint.Task{ID: "w", Action: "none", PostResult: true})
	l := startLoad(t, openStore(t, pool, stint.Options{}), 50, 5)
	waiting := h.waitFor(t, "w")
	for range 2 {
		wantErr(t, "stop", server.Close(), nil)
		again, err := localpg.Start(t.Context(), config)
		wantErr(t, "Start", err, nil)
		server = again
		n := l.waited.Load()
		eventually(t, soon, "the load goes on", func() bool { return l.waited.Load() > n+100 })
	}
	wantGoingOn(t, "WaitForTask", waiting)
	eventually(t, soon, "the session is back", func() bool {
		return listeners(t, pool, "finished") == 2 && len(sessionPIDs(t, pool)) == 2
	})
	again(t, "AbortTasks", nil, func() error { // the pool may have a connection from before
		return errOf(h.AbortTasks(t.Context(), []stint.TaskID{"w"}, ""))
	})
	_, err = ends(t, "WaitForTask", waiting)
	wantErr(t, "WaitForTask", err, nil)
	l.end(t)
	checkStore(t, pool)
}
