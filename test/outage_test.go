package stint_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A gate counts the attempts of a pool, and of the session, to connect, and lets them fail.
type gate struct {
	pool     *pgxpool.Pool
	down     atomic.Bool
	attempts atomic.Int64
}

var errNoServer = errors.New("no server")

func newGate(t *testing.T, pool *pgxpool.Pool) *gate {
	t.Helper()
	g := &gate{}
	g.pool = poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["application_name"] = "gated"
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			g.attempts.Add(1)
			if g.down.Load() {
				return errNoServer
			}
			return nil
		}
		config.AfterConnect = func(context.Context, *pgx.Conn) error { // it may be down meanwhile
			if g.down.Load() {
				return errNoServer
			}
			return nil
		}
	})
	return g
}

// shut ends all connections, and lets nobody in.
func (g *gate) shut(t *testing.T, direct *pgxpool.Pool) {
	t.Helper()
	g.down.Store(true)
	eventually(t, soon, "nobody is connected", func() bool { // nor on the way
		return yields[int](t, direct, `SELECT count(pg_terminate_backend(pid, 10000))
			FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'gated'`) == 0
	})
}

// A recorder counts records by their messages.
type recorder struct {
	slog.Handler
	mutex   sync.Mutex
	records map[string]int
	text    strings.Builder
}

func record() (*slog.Logger, *recorder) {
	r := &recorder{records: map[string]int{}}
	r.Handler = slog.NewTextHandler(&r.text, nil)
	return slog.New(r), r
}

func (r *recorder) Handle(ctx context.Context, record slog.Record) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.records[record.Message]++
	return r.Handler.Handle(ctx, record)
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *recorder) String() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.text.String()
}

func (r *recorder) counts() map[string]int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.records)
}

// busyInTheBackground opens a store that does everything that stores do besides their verbs: an
// actor is registered, a task owned and watched, another one waited for.
func busyInTheBackground(t *testing.T, pool *pgxpool.Pool, logger *slog.Logger) *stint.Store {
	t.Helper()
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainAlways, PollInterval: 100 * time.Millisecond, Logger: logger,
	})
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
	insert(t, store, after("owned"), stint.Task{ID: "waited for", Action: "x", PostResult: true})
	ctx, done := store.OwnershipContext(t.Context(), ownAs(t, store, "actor", 1)[0])
	t.Cleanup(done)
	waiting, cancel := context.WithCancel(ctx)
	ended := start(func() (stint.TaskInfo, error) {
		return store.WaitForTask(waiting, "waited for")
	})
	t.Cleanup(func() { cancel(); <-ended })
	eventually(t, soon, "somebody waits", func() bool {
		return listeners(t, pool, "finished") > 0 && listeners(t, pool, "lost") > 0
	})
	return store
}

// A server that is away for long must not be beset, nor the log filled. Once it is back, the store
// is soon itself again.
// Proves G86.
func TestStore_MakesNoStormOfAnOutageAndTellsOfItSeldom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	gate := newGate(t, pool)
	logger, log := record()
	store := busyInTheBackground(t, gate.pool, logger)
	tries := func(d time.Duration) int64 {
		before := gate.attempts.Load()
		<-time.After(d)
		return gate.attempts.Load() - before
	}
	gate.shut(t, pool)
	quick := tries(2 * time.Second) // the grace of the actor and some more
	_ = tries(4 * time.Second)
	slow := tries(5 * time.Second)
	t.Logf("%d attempts to connect at first, %d in five seconds later", quick, slow)
	if slow > 25 {
		t.Errorf("%d attempts to connect within five seconds", slow)
	}
	const sessionLost = "the session is lost, it is made anew"
	for message, n := range log.counts() {
		if n > 5 { // work that is repeated is of five kinds
			t.Errorf("%d lines in an outage: %s", n, message)
		}
	}
	if log.counts()[sessionLost] != 1 || !strings.Contains(log.String(), errNoServer.Error()) {
		t.Errorf("the outage was told so:\n%s", log)
	}
	gate.down.Store(false)
	began := time.Now()
	eventually(t, soon, "a task can be inserted", func() bool {
		return store.InsertTasks(t.Context(), []stint.Task{
			{ID: "later", Action: "x", PostResult: true},
		}) == nil
	})
	_, err := store.AbortTasks(t.Context(), []stint.TaskID{"later"}, "") // others are told of it
	wantErr(t, "AbortTasks", err, nil)
	eventually(t, soon, "all works again", func() bool {
		return len(sessionPIDs(t, pool)) == 1 &&
			log.counts()["works again"] == len(strings.Split(log.String(), "level=WARN"))-1
	})
	t.Logf("back after %v:\n%s", time.Since(began), log)
	if n := yields[int](t, pool, tasksIn("leased")); n != 1 {
		t.Error("the task was taken from an actor that lives")
	}
}

// What runs in the background when the store is closed has not gone wrong.
// Proves G87.
func TestClose_LogsNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	logger, log := record()
	store := busyInTheBackground(t, pool, logger)
	// A call that is under way holds up the end of the background.
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE stint.action_stats")
	wantErr(t, "LOCK", err, nil)
	owning := start(func() ([]stint.OwnedTask, error) {
		return store.OwnTasks(t.Context(), "actor", 1, []string{"another"}, time.Hour)
	})
	waitForLocks(t, pool, 1)
	closing := start(func() (bool, error) { return true, store.Close(t.Context()) })
	eventually(t, soon, "the store is closed", func() bool {
		_, err := store.GetTasks(t.Context(), []stint.TaskID{"owned"})
		return errors.Is(err, stint.ErrClosed)
	})
	<-time.After(1500 * time.Millisecond) // longer than any pause of the background
	wantGoingOn(t, "Close", closing)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	_, err = ends(t, "Close", closing)
	wantErr(t, "Close", err, nil)
	_, _ = ends(t, "OwnTasks", owning)
	if lines := log.String(); lines != "" {
		t.Errorf("closing logged\n%s", lines)
	}
}
