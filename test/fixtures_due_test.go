package stint_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// bursts are what may come due at one moment, by name, and how to make n of it.
var bursts = []struct {
	name    string
	prepare func(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int)
}{
	{"leases", leasesDue},
	{"leases without tries", lastTriesDue},
	{"rows of a lease", rowsOfALeaseDue},
	{"scheduled", scheduledDue},
	{"spontaneous", spontaneousDue},
	{"deadlines", deadlinesDue},
	{"dependents of one", dependentsDue},
}

func leasesDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	insert(tb, store, numbered("t", n)...)
	ownOneByOne(tb, store)
	expireOneByOne(tb, pool)
}

func lastTriesDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	tasks := numbered("t", n)
	for i := range tasks {
		tasks[i].MaxTries = 1
	}
	insert(tb, store, tasks...)
	ownOneByOne(tb, store)
	expireOneByOne(tb, pool)
}

func rowsOfALeaseDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	insert(tb, store, withDeadlines(n)...)
	own(tb, store, n)
	expireLeases(tb, pool)
}

func scheduledDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	insert(tb, store, later("act", n)...)
	makeDue(tb, pool)
}

func spontaneousDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	insert(tb, store, later(stint.Spontaneous, n)...)
	makeDue(tb, pool)
}

func deadlinesDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	insert(tb, store, withDeadlines(n)...)
	passDeadlines(tb, pool)
}

func dependentsDue(tb testing.TB, store *stint.Store, pool *pgxpool.Pool, n int) {
	tb.Helper()
	tasks := append(withDeadlines(1), numbered("behind", n)...)
	for i := range n {
		tasks[1+i].After = []stint.TaskID{tasks[0].ID}
	}
	insert(tb, store, tasks...)
	passDeadlines(tb, pool)
}

// withDeadlines are n tasks, each with a row of its own.
func withDeadlines(n int) []stint.Task {
	tasks := numbered("t", n)
	for i := range tasks {
		tasks[i].Deadline = time.Now().Add(time.Hour)
	}
	return tasks
}

// later are n tasks for later.
func later(action string, n int) []stint.Task {
	tasks := numbered("t", n)
	for i := range tasks {
		tasks[i].Action = action
		tasks[i].NotBefore = time.Now().Add(time.Hour)
	}
	return tasks
}

// ownOneByOne owns all tasks with action "act", each in a fetch of its own.
func ownOneByOne(tb testing.TB, store *stint.Store) {
	tb.Helper()
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			actor := stint.ActorID(fmt.Sprint("actor", i))
			for {
				owned, err := store.OwnTasks(tb.Context(), actor, 1, []string{"act"}, time.Hour)
				if err != nil {
					tb.Error(err)
				}
				if len(owned) == 0 {
					return
				}
			}
		})
	}
	group.Wait()
}

// expireLeases lets every lease expire.
func expireLeases(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 second'")
}

// expireOneByOne lets leases expire in the order in which they were given.
func expireOneByOne(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, `UPDATE stint.leases
		SET deadline = statement_timestamp() - interval '1 h' + place * interval '1 us'
		FROM (SELECT claim, row_number() OVER (ORDER BY owned_at) AS place
		      FROM stint.leases) AS lease
		WHERE leases.claim = lease.claim`)
}

// makeDue lets the time of scheduled tasks come.
func makeDue(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.scheduled SET not_before = statement_timestamp() - interval '1 s'")
}

// passDeadlines lets the deadlines pass of all tasks that have one.
func passDeadlines(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	for _, table := range []string{"tasks", "deadlines", "ready"} {
		exec(tb, pool, "UPDATE stint."+table+" SET deadline = '2020-01-01Z'"+
			" WHERE deadline IS NOT NULL")
	}
}
