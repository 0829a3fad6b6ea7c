package stint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// lockTask locks the row in which a task waits, as whoever is about to change it does. What it
// returns lets go of it.
func lockTask(t *testing.T, pool *pgxpool.Pool, id stint.TaskID) (unlock func()) {
	t.Helper()
	tx := begin(t, pool)
	tag, err := tx.Exec(t.Context(), `SELECT FROM stint.ready, stint.tasks
		WHERE tasks.id = $1 AND tasks.key BETWEEN ready.lo AND ready.hi
		FOR UPDATE OF ready`, string(id))
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("lock %q: %v, %v", id, tag, err)
	}
	return func() { wantErr(t, "Rollback", tx.Rollback(t.Context()), nil) }
}

// A task that somebody is about to change is passed over by a fetch, and its key with it, but no
// other key, however many tasks wait behind it.
// Proves G251.
func TestOrdered_WhatIsLockedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "first")...)
	insert(t, store, ofKey("k", 300)...)
	insert(t, store, withKey("other", "other")...)
	unlock := lockTask(t, pool, "first")
	wantFetch(t, store, 1, "other")
	wantFetch(t, store, 1)
	insert(t, store, withKey("k", "last")...)
	wantFetch(t, store, 1)
	maintain(t, store) // brings one back in vain, since it does not see the lock
	wantFetch(t, store, 1)
	unlock()
	complete(t, store, wantFetch(t, store, 1, "first")...)
	wantFetch(t, store, 1, "k/00000")
}

// Nobody tries again and again what a lock prevents.
// Proves G251.
func TestOrdered_ALockIsTriedOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "first")...)
	insert(t, store, ofKey("k", 100)...)
	defer lockTask(t, pool, "first")()
	wantFetch(t, store, 1)
	spied, spy := spyOn(t, pool, 2)
	again := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	maintain(t, again) // brings one back in vain
	wantFetch(t, again, 1)
	if n := spy.count("own_limited"); n > 3 {
		t.Errorf("own_limited ran %d times", n)
	}
}

// A task that is locked while it waits for its turn is not overtaken when the one before it ends.
// Proves G251.
func TestOrdered_WhatIsLockedWhileItIsParkedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "a")...)
	insert(t, store, withKey("k", "b")...)
	insert(t, store, withKey("k", "c")...)
	owned := wantFetch(t, store, 10, "a")
	unlock := lockTask(t, pool, "b")
	complete(t, store, owned...)
	wantFetch(t, store, 10)
	maintain(t, store)
	wantFetch(t, store, 10)
	unlock()
	maintain(t, store)
	complete(t, store, wantFetch(t, store, 10, "b")...)
	wantFetch(t, store, 10, "c")
}

// handedOut are the tasks that the claim 7 has, in order.
func handedOut(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return yields[[]string](t, pool, `SELECT coalesce(array_agg(id ORDER BY key), '{}')
		FROM stint.tasks, stint.leased WHERE key BETWEEN lo AND hi AND claim = 7`)
}

// A fetch that sees a row, and finds that it has been cut in two when it locks it, sees only
// one half. What is in the other one is not overtaken either.
// Proves G251.
func TestOrdered_WhatIsCutMeanwhileIsNotOvertaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	tasks := ofKey("t", 160) // rows of ten
	for i := range tasks {
		tasks[i].Key = []string{"a", "a", "a", "a", "a", "b", "c"}[min(i, 6)]
	}
	insert(t, store, tasks...)
	insert(t, store, withKey("d", "d")...)
	ownMany := strings.Replace(ownAll, "10", "1000", 1)
	pausedBehind(t, pool, "own_limited", "queue.*, limits.action IS NOT", ownMany, func() {
		_, err := store.AbortTasks(t.Context(), []stint.TaskID{"t/00002"}, "")
		wantErr(t, "AbortTasks", err, nil)
	})
	got := handedOut(t, pool)
	first := []string{"t/00000", "t/00005", "t/00006", "d"} // of their keys
	isLater := func(id string) bool { return !slices.Contains(first, id) }
	if slices.ContainsFunc(got, isLater) || !slices.Contains(got, "d") {
		t.Errorf("%q were fetched, want d, and only the first of a key", got)
	}
	wantOnce(t, pool)
	maintain(t, store)
}

// What was inserted by a transaction that took long has a place ahead of what others have seen
// since. A store that has learned where the queue begins hands it out first all the same.
// Proves G251.
func TestOrdered_WhatIsCommittedLateIsNotOvertaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	tx := begin(t, pool)
	insert(t, store.WithTx(tx), withKey("k", "late")...)
	insert(t, store, withKey("other", "seen")...)
	wantFetch(t, store, 10, "seen")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	insert(t, store, withKey("k", "later")...)
	from := yields[int64](t, pool, "SELECT max(rank) FROM stint.ready")
	fetch := begin(t, pool)
	run(t, fetch, fmt.Sprintf("own_limited(7, 'first', 10, '{act}', '1 h', NULL, '{%d}', "+
		"'{9223372036854775807}', false, 0, 0)", from))
	wantErr(t, "Commit", fetch.Commit(t.Context()), nil)
	if got := handedOut(t, pool); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%q were fetched, want what was committed first", got)
	}
}

// As long as the next task has not come back, none that was inserted since is ahead of it.
// Proves G251.
func TestOrdered_WhatIsParkedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "a")...)
	insert(t, store, withKey("k", "b")...)
	owned := wantFetch(t, store, 1, "a")
	wantFetch(t, store, 1)
	complete(t, store, owned...)
	exec(t, pool, "UPDATE stint.ready SET position = position | '-9223372036854775808'::bigint")
	insert(t, store, withKey("k", "c")...)
	wantFetch(t, store, 1, "b") // c was parked, and then b came back
}

// One that is brought back in vain goes to the place that it had, so that it comes in order.
// Proves G251.
func TestOrdered_WhatComesBackInVainIsNotAhead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	c := withKey("k", "c")
	c[0].NotBefore = time.Now().Add(time.Hour)
	insert(t, store, c...)
	for _, id := range []stint.TaskID{"a", "b"} {
		insert(t, store, withKey("k", id)...)
	}
	change(t, store, stint.TaskChanges{StartNow: true}, []stint.TaskID{"c"}, "c")
	insert(t, store, withKey("k", "d")...)
	owned := wantFetch(t, store, 1, "a")
	wantFetch(t, store, 1) // parks the others
	complete(t, store, owned...)
	exec(t, pool, "UPDATE stint.ready SET limit_key = NULL WHERE position >= 0") // it is not seen
	maintain(t, store)
	const back = "SELECT count(*) FROM stint.ready WHERE position >= 0"
	if n := yields[int](t, pool, back); n != 2 {
		t.Fatalf("%d tasks have come back, want one in vain", n)
	}
	for _, id := range []stint.TaskID{"b", "c", "d"} {
		complete(t, store, wantFetch(t, store, 10, id)...)
	}
}

// However many tasks of a key wait, alone in their rows or not, nobody looks at them: neither a
// fetch, nor the return that brings the next one back, nor who asks what they wait for. That
// holds also for the task that holds the key, which is behind all of them.
// Proves G253.
func TestOrdered_WaitingTasksCostNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	looked := map[int]map[string]float64{}
	for _, n := range []int{100, 20_000} {
		store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
		insert(t, store, withKey("k", "first")...)
		_, err := store.InsertTasksFrom(t.Context(), stream(ofKey("k", n), nil))
		wantErr(t, "InsertTasksFrom", err, nil)
		owned := wantFetch(t, store, 1, "first")
		wantFetch(t, store, 1) // parks the others
		key := yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = 'first'")
		claim := yields[int64](t, pool, "SELECT claim FROM stint.leased")
		insert(t, store, withKey("other", "other")...)
		looked[n] = map[string]float64{}
		look := func(when, name, args string) {
			looked[n][when+": "+name] = rowsLookedAt(t, pool, name, args)
		}
		look("in progress", "own_limited", ownAll)
		returned := fmt.Sprintf("'{%d}', '{%[1]d}', '{%d}', '{}', '{}', '{}', true, ", key, claim)
		look("returned", "unpark_within_limits", returned+"'{0}'")
		look("tried again", "unpark_within_limits", returned+"'{2}'")
		look("explained", "explain_task", "'k/00000', 100")
		returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
		look("ready again", "own_limited", ownAll)
		exec(t, pool, `UPDATE stint.ready SET position = position | '-9223372036854775808'::bigint,
			limit_key = 'k' WHERE lo = $1`, key)
		look("parked", "unpark_within_limits", "NULL, NULL, NULL, '{act}', '{k}', '{}', true, NULL")
	}
	for when, few := range looked[100] {
		if many := looked[20_000][when]; many > few+10 {
			t.Errorf("%s looks at %.0f rows where 100 tasks wait, at %.0f where 20,000 do",
				when, few, many)
		}
	}
}

// Where no order is set, nobody waits for a lock, nor looks for the tasks that hold keys.
// Proves G255.
func TestOrdered_CostsOtherActionsNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, ordered := range []bool{false, true} {
		store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1, Ordered: ordered})
		insert(t, store, keyed(numbered("t", 40), "a", "b", "c", "d")...)
		complete(t, store, wantFetch(t, store, 4, "t000000", "t000001", "t000002", "t000003")...)
		fetch := explained(t, pool, "own_limited", ownAll)
		if looks := fetch.looks("finished"); looks > 0 != ordered {
			t.Errorf("in order %t, a fetch looks %.0f times for ended tasks", ordered, looks)
		}
		returned := explained(t, pool, "unpark_within_limits",
			"NULL, NULL, NULL, '{act,act}', '{a,b}', '{}', true, NULL")
		if looks := returned.looks("finished"); looks > 0 != ordered {
			t.Errorf("in order %t, a return looks %.0f times for ended tasks", ordered, looks)
		}
		rows := explained(t, pool, "lock_limits", "'{act}'")
		if rows.Rows > 0 != ordered {
			t.Errorf("in order %t, a fetch locks %.0f actions", ordered, rows.Rows)
		}
	}
}
