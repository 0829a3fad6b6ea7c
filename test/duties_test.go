package stint_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A maintainer is a store that maintains and waits for tasks, over connections that can be cut.
type maintainer struct {
	*stint.Store
	name  string
	proxy *pgcut.Proxy
	spy   *spy
}

func newMaintainers(t *testing.T, pool *pgxpool.Pool, n int) []*maintainer {
	t.Helper()
	var all []*maintainer
	for i := range n {
		m := &maintainer{
			name: fmt.Sprint("maintainer", i), proxy: pgcut.New(t, pool),
			spy: &spy{counts: map[string]int{}},
		}
		spied := poolOf(t, m.proxy.Pool(t, 3), func(config *pgxpool.Config) {
			config.ConnConfig.Tracer = m.spy
			config.ConnConfig.RuntimeParams["application_name"] = m.name
		})
		m.Store = openStore(t, spied, stint.Options{Maintenance: stint.MaintainAlways})
		err := m.RegisterActor(t.Context(), stint.ActorID(m.name), []string{"act"})
		wantErr(t, "RegisterActor", err, nil)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := start(func() ([]stint.OwnedTask, error) {
			return m.WaitToOwnTasks(ctx, stint.ActorID(m.name), 1, []string{"none"}, time.Hour)
		})
		t.Cleanup(func() { cancel(); <-waiting })
		all = append(all, m)
	}
	return all
}

// statements is how many statements a maintainer has sent besides those that begin, set up and end
// transactions, and those that look whether sessions are gone: while one is silent that the server
// still has, each store looks.
func (m *maintainer) statements() (n int) {
	m.spy.mutex.Lock()
	defer m.spy.mutex.Unlock()
	for name, count := range m.spy.counts {
		switch name {
		case "ping_session", "check_sessions", "set_path", "set_planner", "commit":
			continue
		}
		if len(name) < 30 {
			n += count
		}
	}
	return n
}

// holder waits until one of the maintainers does the work of all, while the others send nothing.
func holder(t *testing.T, all []*maintainer) *maintainer {
	t.Helper()
	const looks = 4
	var found *maintainer
	type sent struct{ statements, looks int }
	before := make([]sent, len(all))
	eventually(t, soon, "one does the work of all", func() bool {
		for i, m := range all {
			now := sent{m.statements(), m.spy.count("look_for_work")}
			if now.looks < before[i].looks+looks {
				continue
			}
			quiet := 0
			for j, other := range all {
				if j != i && other.statements() == before[j].statements {
					quiet++
				}
			}
			if quiet == len(all)-1 {
				found = m
				return true
			}
			for j, other := range all {
				before[j] = sent{other.statements(), other.spy.count("look_for_work")}
			}
		}
		return false
	})
	return found
}

func backends(t *testing.T, pool *pgxpool.Pool, name string) []int32 {
	t.Helper()
	return yields[[]int32](t, pool, `SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity
		WHERE application_name = $1`, name)
}

// Of stores that hear one another, one does the work, and polls for the others. When it is gone, or
// does not answer any more, another one goes on with all of it.
// Proves G206, R13.
func TestStores_ShareTheWorkAndGoOnWithoutTheOneThatDoesIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, stop := range map[string]func(*testing.T, *pgxpool.Pool, *maintainer){
		"killed": func(t *testing.T, pool *pgxpool.Pool, m *maintainer) {
			t.Helper()
			for _, pid := range backends(t, pool, m.name) {
				exec(t, pool, "SELECT pg_terminate_backend($1, 10000)", pid)
			}
		},
		"cut off": func(t *testing.T, pool *pgxpool.Pool, m *maintainer) {
			t.Helper()
			for _, pid := range backends(t, pool, m.name) {
				m.proxy.Stall(uint32(pid))
			}
			t.Cleanup(m.proxy.HangUp) // else the store waits for answers when it is closed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			all := newMaintainers(t, pool, 3)
			for range 2 {
				m := holder(t, all)
				all = slices.DeleteFunc(all, func(other *maintainer) bool { return other == m })
				m.proxy.Refuse(true)
				stop(t, pool, m)
				began := time.Now()
				wantMaintained(t, pool, m.name)
				t.Logf("maintained %v later", time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// wantMaintained checks that each kind of work is done in the background.
func wantMaintained(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	id := func(what string) stint.TaskID { return stint.TaskID(name + " " + what) }
	insert(t, store,
		stint.Task{ID: id("expired"), Action: "act", MaxTries: 1},
		stint.Task{ID: id("scheduled"), Action: "late", NotBefore: time.Now().Add(time.Hour)},
		stint.Task{ID: id("deadline"), Action: "never", Deadline: time.Now().Add(time.Hour)},
		stint.Task{ID: id("failed"), Action: "never"},
		stint.Task{
			ID: id("fast"), Action: "never", After: []stint.TaskID{id("failed"), id("needed")},
			FailFast: true,
		},
		stint.Task{ID: id("needed"), Action: "never"})
	own(t, store, 1)
	expireLeases(t, pool)
	makeDue(t, pool)
	passDeadlines(t, pool)
	_, err := store.AbortTasks(t.Context(), []stint.TaskID{id("failed")}, "")
	wantErr(t, "AbortTasks", err, nil)
	err = store.PutSchedules(t.Context(), []stint.Schedule{{
		Name: name, Spec: "@hourly", Tasks: []stint.Task{{Action: "never"}},
	}})
	wantErr(t, "PutSchedules", err, nil)
	exec(t, pool,
		"UPDATE stint.schedules SET next_at = statement_timestamp() WHERE name = $1", name)
	for what, want := range map[string]stint.State{
		"expired": stint.StateAborted, "scheduled": stint.StateReady,
		"deadline": stint.StateAborted, "fast": stint.StateAborted, "needed": stint.StateAborted,
	} {
		eventually(t, soon, what+" is settled", func() bool {
			return info(t, store, id(what)).State == want
		})
	}
	eventually(t, soon, "the schedule has occurred", func() bool {
		return yields[bool](t, pool,
			"SELECT last_at IS NOT NULL FROM stint.schedules WHERE name = $1", name)
	})
}

// Nobody tells of tasks that come in a quiet transaction, but the store that does the work for all
// tells those who wait.
// Proves R19.
func TestStores_TellOneAnotherOfWhatWasNotToldOf(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{PollInterval: pollNever})
	openStore(t, h.pool, stint.Options{Maintenance: stint.MaintainAlways})
	for _, limits := range []stint.Limits{{}, {Concurrency: 2}, {Fair: true}} {
		wantErr(t, "SetLimits", h.SetLimits(t.Context(), "act", limits), nil)
		awaiting := h.await(t.Context(), t, 1)
		tx := begin(t, h.pool)
		insertQuietly := h.WithTx(stint.Quiet(tx))
		id := stint.TaskID(fmt.Sprint(limits))
		insert(t, insertQuietly, stint.Task{ID: id, Action: "act"})
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		wantOwned(t, awaiting, id)
	}
}

// Who waits below a limit that is reached asks nothing, however many tasks are ready.
// Proves G207.
func TestWaitToOwnTasks_DoesNotPollBelowALimit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"concurrency": {Concurrency: 1}, "of a key": {ConcurrencyPerKey: 1},
		"rate": {Rate: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1}},
		"fair": {Fair: true, ConcurrencyPerKey: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeardStore(t, stint.Options{PollInterval: 10 * time.Millisecond})
			wantErr(t, "SetLimits", h.SetLimits(t.Context(), "act", limits), nil)
			insert(t, h.Store, keyTask("a", "k"), keyTask("b", "k"), keyTask("c", "k"))
			own(t, h.Store, 1)
			ctx, cancel := context.WithCancel(t.Context())
			waiting := h.await(ctx, t, 1)
			eventually(t, soon, "ten polls find nothing, and nobody looks", func() bool {
				looks, polls := h.spy.count("next_limited"), h.spy.count("ready_actions")
				h.spy.sees(t, "ready_actions", polls+10)
				return h.spy.count("next_limited") == looks
			})
			cancel()
			<-waiting
		})
	}
}
