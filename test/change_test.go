package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// tomorrow is later than any test.
func tomorrow() time.Time { return time.Now().Add(24 * time.Hour).Truncate(time.Microsecond) }

// change changes tasks, and fails unless these are the ones that become different.
func change(
	tb testing.TB, store *stint.Store, to stint.TaskChanges, ids []stint.TaskID,
	want ...stint.TaskID,
) {
	tb.Helper()
	got, err := store.ChangeTasks(tb.Context(), ids, to)
	wantErr(tb, "ChangeTasks", err, nil)
	if !slices.Equal(got.Tasks, want) || got.Others != 0 || got.InProgress != 0 {
		tb.Fatalf("ChangeTasks of %q to %+v changed %+v, want %q", ids, to, got, want)
	}
}

// What people ask for: a task that was inserted for later starts now, or at another time
// (river#123, pg-boss#440), and the tasks that wait for it still do.
// Proves G212.
func TestChangeTasks_MovesATaskWithItsEdges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("before"), stint.Task{
		ID: "mail", Action: "act", NotBefore: tomorrow(), After: []stint.TaskID{"before"},
		Body: []byte("dear"), PostResult: true,
	}, after("behind", "mail"), join("all", "mail", "behind"))
	mail := []stint.TaskID{"mail"}
	later := tomorrow().Add(time.Hour)
	change(t, store, stint.TaskChanges{NotBefore: later}, mail, "mail")
	wantState(t, store, stint.StateBlocked, "mail")
	if got := info(t, store, "mail").NotBefore; !got.Equal(later) {
		t.Errorf("the blocked task starts at %v", got)
	}
	finish(t, store, "before", stint.StatusCompleted)
	wantState(t, store, stint.StateScheduled, "mail")
	change(t, store, stint.TaskChanges{NotBefore: later.Add(time.Hour)}, mail, "mail")
	if got := info(t, store, "mail").NotBefore; !got.Equal(later.Add(time.Hour)) {
		t.Errorf("the scheduled task starts at %v", got)
	}
	change(t, store, stint.TaskChanges{StartNow: true}, mail, "mail")
	owned := wantFetch(t, store, 10, "mail")
	if string(owned[0].Body) != "dear" || owned[0].Completed != 1 {
		t.Errorf("the task is fetched as %+v", owned[0])
	}
	complete(t, store, owned...)
	finish(t, store, "behind", stint.StatusCompleted)
	wantState(t, store, stint.StateCompleted, "mail", "behind", "all")
}

// What people ask for: all that waits for a customer is put off, by the customer's key
// (pg-boss#440), or comes first, for a higher plan (db-scheduler#721).
// Proves G212, R6.
func TestChangeTasks_ChangesWhatAFilterFinds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, slices.Concat(ofKey("a", 300), ofKey("b", 300))...)
	page, err := store.ListTasks(t.Context(), stint.Filter{Key: "a", Limit: 1000})
	wantErr(t, "ListTasks", err, nil)
	var ids []stint.TaskID
	for _, task := range page.Tasks {
		ids = append(ids, task.ID)
	}
	slices.Sort(ids)
	change(t, store, stint.TaskChanges{StartAfter: time.Hour}, ids, ids...)
	if got := byKey(own(t, store, 10)); got["b"] != 10 {
		t.Errorf("%v were fetched, want b alone", got)
	}
	change(t, store, stint.TaskChanges{StartNow: true, Priority: new(int16(1))}, ids, ids...)
	if got := byKey(own(t, store, 300)); got["a"] != 300 {
		t.Errorf("%v were fetched, want a first", got)
	}
}

// Proves G212, R6.
func TestChangeTasks_ChangesEachStateThatWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	retried := func() stint.OwnedTask {
		insert(t, store, after("retried"))
		return ownOne(t, store)
	}()
	returnWith(t, store, retried, stint.Return{
		Code: stint.StatusPending, RetryAfter: time.Hour, Status: "again",
	})
	insert(t, store, after("ready"), after("blocked", "ready"),
		stint.Task{ID: "scheduled", Action: "act", NotBefore: tomorrow()},
		stint.Task{ID: "limited", Action: "act", Deadline: tomorrow()})
	insert(t, store, numbered("span", 1000)...)
	ids := []stint.TaskID{
		"blocked", "limited", "ready", "retried", "scheduled", "span000000", "span000500",
		"span000501", "span000999",
	}
	at := tomorrow()
	for _, to := range []stint.TaskChanges{
		{Priority: new(int16(-7))},
		{Key: new("customer")},
		{MaxTries: 3},
		{MaxTries: stint.UnlimitedTries},
		{NotBefore: at.Add(time.Second)},
		{StartNow: true},
		{
			NotBefore: at.Add(time.Minute), Priority: new(int16(math.MaxInt16)),
			Key: new("other"), MaxTries: 9,
		},
	} {
		// What passes through Clone is not the caller's list in order: it comes twice, too.
		change(t, store, to, slices.Concat(ids[4:], ids), changedOf(t, store, to, ids)...)
		change(t, store, to, ids) // again: nothing happens
	}
	for _, id := range ids {
		got := info(t, store, id)
		want := got
		want.Priority, want.Key, want.MaxTries = math.MaxInt16, "other", 9
		want.NotBefore, want.State = at.Add(time.Minute), stint.StateScheduled
		if id == "blocked" {
			want.State = stint.StateBlocked
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v", id, got)
		}
	}
	if got := info(t, store, "retried"); got.Tries != 1 || got.Status != "again" {
		t.Errorf("the task that was tried before is %+v", got)
	}
	change(t, store, stint.TaskChanges{Key: new(""), StartNow: true}, ids, ids...)
	wantFetch(t, store, 4, "retried", "ready", "scheduled", "limited") // by age, all of one time
	if got := own(t, store, 2000); len(got) != 1000 {
		t.Errorf("%d tasks are left to own, want the 1,000 of the span", len(got))
	}
}

// changedOf are those of the tasks that are not yet as a change makes them.
func changedOf(
	t *testing.T, store *stint.Store, to stint.TaskChanges, ids []stint.TaskID,
) (different []stint.TaskID) {
	t.Helper()
	for _, id := range ids {
		is := info(t, store, id)
		if to.Priority != nil && *to.Priority != is.Priority ||
			to.Key != nil && *to.Key != is.Key ||
			to.MaxTries != 0 && to.MaxTries != is.MaxTries ||
			to.StartNow && !is.NotBefore.IsZero() ||
			!to.NotBefore.IsZero() && !to.NotBefore.Equal(is.NotBefore) {
			different = append(different, id)
		}
	}
	return different
}

// Proves R6.
func TestChangeTasks_KeepsTheAgeOfATask(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, id := range []stint.TaskID{"a", "b", "c", "d"} {
		insert(t, store, after(id))
	}
	change(t, store, stint.TaskChanges{Priority: new(int16(1))}, []stint.TaskID{"c"}, "c")
	change(t, store, stint.TaskChanges{Priority: new(int16(1))}, []stint.TaskID{"b"}, "b")
	wantFetch(t, store, 4, "b", "c", "a", "d")
}

// Tasks that are alike stay spans, so that a fetch of many stays one of few rows.
func TestChangeTasks_KeepsSpans(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", 2000)
	insert(t, store, tasks...)
	ids := named(tasks)
	rows := func() int { return yields[int](t, pool, "SELECT count(*) FROM stint.ready") }
	change(t, store, stint.TaskChanges{Priority: new(int16(1))}, ids, ids...)
	if got := rows(); got > 2000/16 {
		t.Errorf("2,000 tasks are %d rows", got)
	}
	change(t, store, stint.TaskChanges{Priority: new(int16(1)), StartNow: true}, ids)
	if got := rows(); got > 2000/16 {
		t.Errorf("2,000 tasks that were so already are %d rows", got)
	}
	change(t, store, stint.TaskChanges{NotBefore: tomorrow()}, ids, ids...)
	change(t, store, stint.TaskChanges{StartNow: true}, ids, ids...)
	if got := rows(); got > 2000/16 {
		t.Errorf("2,000 tasks that were scheduled are %d rows", got)
	}
}

// Proves R6.
func TestChangeTasks_RefusesWhatHasStarted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	running := oneInEachState(t, store)
	insert(t, store, stint.Task{ID: "late", Action: "lapsing"})
	late, err := store.OwnTasks(t.Context(), "actor", 1, []string{"lapsing"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	exec(t, pool, `UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 s'
		WHERE claim = (SELECT claim FROM stint.leased JOIN stint.tasks ON key = lo
			WHERE id = 'late')`)
	maintain(t, store)
	wantState(t, store, stint.StateReady, "late")
	ids := []stint.TaskID{"ready", "done000001", "done000000", running.ID, "late", "scheduled"}
	now := stint.TaskChanges{StartNow: true, Priority: new(int16(1))}
	err = errOf(store.ChangeTasks(t.Context(), ids, now))
	wantTasks(t, "ChangeTasks", err, stint.ErrTaskStarted,
		"done000000", "done000001", running.ID, "late")
	err = errOf(store.ChangeTasks(t.Context(), append(ids, "none"), now))
	wantTasks(t, "ChangeTasks", err, stint.ErrTaskNotFound, "none")
	wantState(t, store, stint.StateScheduled, "scheduled")
	if got := info(t, store, "ready").Priority; got != 0 {
		t.Errorf("a refused change has left the priority %d", got)
	}
	complete(t, store, late...) // its late owner still may
}

// Proves G167.
func TestChangeTasks_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, to := range []stint.TaskChanges{
		{},
		{StartNow: true, StartAfter: time.Hour},
		{StartNow: true, NotBefore: tomorrow()},
		{StartAfter: -time.Second},
		{MaxTries: -2},
		{MaxTries: math.MaxInt32 + 1},
		{Key: new("a\x00b")},
		{Key: new(strings.Repeat("k", 256))},
		{NotBefore: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		err := errOf(store.ChangeTasks(t.Context(), []stint.TaskID{"a"}, to))
		wantErr(t, fmt.Sprintf("ChangeTasks to %+v", to), err, stint.ErrInvalidArgument)
	}
	now := stint.TaskChanges{StartNow: true}
	wantErr(t, "ChangeTasks", errOf(store.ChangeTasks(t.Context(), []stint.TaskID{""}, now)),
		stint.ErrInvalidArgument)
	wantErr(t, "ChangeTasks of none", errOf(store.ChangeTasks(t.Context(), nil, now)), nil)
}

// A limit of tries that a task has reached leaves it one.
// Proves R6.
func TestChangeTasks_LeavesATryLeft(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"))
	for range 3 {
		returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusPending})
	}
	a := []stint.TaskID{"a"}
	change(t, store, stint.TaskChanges{MaxTries: 2}, a, "a")
	change(t, store, stint.TaskChanges{MaxTries: 1}, a)
	if got := info(t, store, "a").MaxTries; got != 4 {
		t.Errorf("a task that was tried three times may be tried %d times", got)
	}
	if last := ownOne(t, store); last.Try != 4 || last.MaxTries != 4 {
		t.Errorf("the last try is %d of %d", last.Try, last.MaxTries)
	} else {
		returnWith(t, store, last, stint.Return{Code: stint.StatusPending})
	}
	if got := info(t, store, "a").AbortCause; got != stint.CauseTries {
		t.Errorf("behind its last try the task is aborted by %q", got)
	}
}

// Proves G216.
func TestChangeTasks_WakesWhoWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	t.Run("now, by the change itself", func(t *testing.T) {
		t.Parallel()
		h := newHeardStore(t, stint.Options{}) // nobody maintains, and so tells again
		insert(t, h.Store, stint.Task{ID: "a", Action: "act", NotBefore: tomorrow()})
		owned := h.await(t.Context(), t, 1)
		change(t, h.Store, stint.TaskChanges{StartNow: true}, []stint.TaskID{"a"}, "a")
		wantOwned(t, owned, "a")
	})
	for name, to := range map[string]stint.TaskChanges{
		"now":     {StartNow: true},
		"earlier": {StartAfter: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{PollInterval: pollNever})
			insert(t, store, stint.Task{ID: "a", Action: "act", NotBefore: tomorrow()})
			owned := start(func() ([]stint.OwnedTask, error) {
				return store.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
			})
			eventually(t, soon, "the session listens", func() bool {
				return listeners(t, pool, "ready act") > 0
			})
			other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainAlways})
			change(t, other, to, []stint.TaskID{"a"}, "a")
			if got, err := ends(t, "WaitToOwnTasks", owned); err != nil || len(got) != 1 {
				t.Errorf("WaitToOwnTasks = %v, %v", got, err)
			}
		})
	}
}

// Spontaneous tasks and external ones have a start, too.
// Proves G212.
func TestChangeTasks_StartsTasksThatNobodyIsGiven(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store,
		stint.Task{ID: "end", Action: stint.Spontaneous, NotBefore: tomorrow()},
		stint.Task{ID: "ask", Action: stint.External, NotBefore: tomorrow()},
		after("behind", "end", "ask"))
	ids := []stint.TaskID{"ask", "end"}
	change(t, store, stint.TaskChanges{StartNow: true, MaxTries: 3}, ids, ids...)
	change(t, store, stint.TaskChanges{StartNow: true, MaxTries: 3}, ids[:1])
	maintain(t, store)
	wantState(t, store, stint.StateCompleted, "end")
	verdicts, err := store.AnswerTasks(t.Context(), "somebody",
		[]stint.Answer{{ID: "ask", Code: stint.StatusCompleted}})
	wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
	wantFetch(t, store, 2, "behind")
}

// Proves G217, L4.
func TestChangeTasks_ObeysTheLimitsOfKeys(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withKey("k", "a", "b", "c", "d")...)
	insert(t, store, withKey("l", "x", "y")...)
	a := wantFetch(t, store, 1, "a")
	wantFetch(t, store, 10, "x") // the others are parked
	change(t, store, stint.TaskChanges{Key: new("m")}, []stint.TaskID{"c"}, "c")
	wantFetch(t, store, 10, "c") // it has left the queue of its key
	change(t, store, stint.TaskChanges{Key: new("k")}, []stint.TaskID{"y"}, "y")
	change(t, store, stint.TaskChanges{Priority: new(int16(5))}, []stint.TaskID{"d"}, "d")
	wantFetch(t, store, 10) // of k one is in progress
	complete(t, store, a...)
	d := wantFetch(t, store, 10, "d")
	change(t, store, stint.TaskChanges{NotBefore: tomorrow()}, []stint.TaskID{"b"}, "b")
	complete(t, store, d...)
	wantFetch(t, store, 10, "y")
}

// A task that has been brought back for the room of its key leaves that to the next one.
// Proves G217.
func TestChangeTasks_LeavesRoomToTheNextOfItsKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withKey("k", "a", "b", "c")...)
	a := wantFetch(t, store, 10, "a")
	complete(t, store, a...) // brings b back
	change(t, store, stint.TaskChanges{NotBefore: tomorrow()}, []stint.TaskID{"b"}, "b")
	wantFetch(t, store, 10, "c")
}

// Of a fair action, too, each key has its turns in the order of priorities.
// Proves G217.
func TestChangeTasks_ObeysTurns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true})
	insert(t, store, slices.Concat(ofKey("a", 100), ofKey("b", 100))...)
	if got := byKey(own(t, store, 64)); got["a"] != 32 || got["b"] != 32 {
		t.Fatalf("%v were fetched", got)
	}
	first := []stint.TaskID{"b/00099"}
	change(t, store, stint.TaskChanges{Priority: new(int16(5))}, first, first...)
	wantFetch(t, store, 1, first...)
	moved := []stint.TaskID{"b/00090", "b/00091"}
	change(t, store, stint.TaskChanges{Key: new("c")}, moved, moved...)
	got := map[string]int{}
	for range 10 {
		for key, n := range byKey(own(t, store, 64)) {
			got[key] += n
		}
	}
	if want := map[string]int{"a": 68, "b": 65, "c": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v were fetched, want %v", got, want)
	}
}

// Proves G218, R21.
func TestChangeTasks_TakesPartInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 100)...)
	errUndone := errors.New("undone")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		inside := store.WithTx(tx)
		one := []stint.TaskID{"t000042"}
		change(t, inside, stint.TaskChanges{NotBefore: tomorrow()}, one, one...)
		wantState(t, inside, stint.StateScheduled, "t000042")
		err := errOf(inside.ChangeTasks(t.Context(), append(one, "none"),
			stint.TaskChanges{StartNow: true}))
		wantTasks(t, "ChangeTasks", err, stint.ErrTaskNotFound, "none")
		wantState(t, inside, stint.StateScheduled, "t000042")
		return errUndone
	})
	wantErr(t, "BeginFunc", err, errUndone)
	wantState(t, store, stint.StateReady, "t000042")
}

// Whoever changes a task waits for who holds it, and then sees what has become of it.
// Proves G218, R6.
func TestChangeTasks_WaitsForWhoTakesATask(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"), after("b"))
	tx := begin(t, pool)
	if got := own(t, store.WithTx(tx), 2); len(got) != 2 {
		t.Fatalf("%d tasks were fetched", len(got))
	}
	changed := start(func() (stint.Affected, error) {
		return store.ChangeTasks(t.Context(), []stint.TaskID{"a", "b"},
			stint.TaskChanges{Priority: new(int16(1))})
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "ChangeTasks", changed)
	wantTasks(t, "ChangeTasks", err, stint.ErrTaskStarted, "a", "b")
}

// Two who change one blocked task both have their way.
// Proves G218.
func TestChangeTasks_LosesNoChangeOfAnother(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("first"), after("a", "first"),
		stint.Task{ID: "b", Action: "act", NotBefore: tomorrow()})
	ids := []stint.TaskID{"a", "b"}
	tx := begin(t, pool)
	change(t, store.WithTx(tx),
		stint.TaskChanges{Priority: new(int16(3)), MaxTries: 7}, ids, ids...)
	changed := start(func() (stint.Affected, error) {
		return store.ChangeTasks(t.Context(), ids, stint.TaskChanges{
			Key: new("k"), StartNow: true, Priority: new(int16(3)),
		})
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if _, err := ends(t, "ChangeTasks", changed); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := info(t, store, id); got.Priority != 3 || got.Key != "k" || got.MaxTries != 7 {
			t.Errorf("%q is %+v", id, got)
		}
	}
}

// A change holds also if the task starts at that moment, behind joins that end together: nobody
// could foresee that it would.
// Proves G218.
func TestChangeTasks_OfATaskThatStartsBehindJoins(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("first"), join("left", "first"), join("right", "first"),
		join("both", "left", "right"), after("a", "both"), after("b", "both"))
	owned := ownOne(t, store)
	tx := begin(t, pool)
	lockBlocked(t, tx, "a")
	returned := start(func() ([]error, error) {
		return store.ReturnTasks(t.Context(), completed([]stint.OwnedTask{owned}))
	})
	waitForLocks(t, pool, 1)
	change(t, store, stint.TaskChanges{Priority: new(int16(3))}, []stint.TaskID{"b"}, "b")
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	if _, err := ends(t, "ReturnTasks", returned); err != nil {
		t.Fatal(err)
	}
	if got := ownOne(t, store); got.ID != "b" {
		t.Errorf("%q is ahead of the task of a higher priority", got.ID)
	}
}

// While tasks are fetched, returned and aborted, none is lost, doubled or torn.
// Proves G218.
func TestChangeTasks_MeetsEverybodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	const tasks = 150
	all := numbered("t", tasks)
	for i := range all {
		if i%3 == 2 {
			all[i].After = []stint.TaskID{all[i-1].ID}
		}
	}
	insert(t, store, all...)
	ids := named(all)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	moving := func(seed int) func() error {
		return func() error {
			for i := seed; ctx.Err() == nil; i++ {
				to := []stint.TaskChanges{
					{Priority: new(int16(i % 3))},
					{StartAfter: time.Hour},
					{StartNow: true},
					{Key: new(fmt.Sprint(i % 2)), MaxTries: 5 + i%3, StartNow: true},
				}[i%4]
				from := i * 37 % tasks
				some := ids[from:min(from+20, tasks)]
				_, err := store.ChangeTasks(ctx, some, to)
				for errors.Is(err, stint.ErrTaskStarted) { // again without these
					var refused *stint.TaskError
					errors.As(err, &refused)
					some = slices.DeleteFunc(slices.Clone(some), func(id stint.TaskID) bool {
						return slices.Contains(refused.IDs, id)
					})
					_, err = store.ChangeTasks(ctx, some, to)
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		}
	}
	done := 0
	errs := atOnce(moving(0), moving(1), func() error {
		defer stop()
		for done < tasks {
			owned := own(t, store, 7)
			complete(t, store, owned...)
			done += len(owned)
		}
		return nil
	})
	wantErr(t, "everybody", errors.Join(errs...), nil)
	wantState(t, store, stint.StateCompleted, ids...)
}
