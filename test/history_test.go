package stint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// tries are the tries of a task in a line each: number, outcome, actor, status and log.
func tries(t *testing.T, store *stint.Store, id stint.TaskID) string {
	t.Helper()
	history, err := store.History(t.Context(), id)
	if err != nil {
		t.Fatalf("History = %v", err)
	}
	lines := make([]string, len(history.Tries))
	last := time.Time{}
	for i, try := range history.Tries {
		lines[i] = fmt.Sprintf("%d %s by %s", try.Number, try.Outcome, try.Actor)
		if try.Status != "" {
			lines[i] += ": " + try.Status
		}
		if try.Log != "" {
			lines[i] += " (" + try.Log + ")"
		}
		if try.EndedAt.Before(last) || try.OwnedAt.After(try.EndedAt) {
			t.Errorf("try %d began at %v and ended at %v, the one before at %v", i, try.OwnedAt,
				try.EndedAt, last)
		}
		last = try.EndedAt
	}
	return strings.Join(lines, "\n")
}

func wantTries(t *testing.T, store *stint.Store, id stint.TaskID, want ...string) {
	t.Helper()
	if got := tries(t, store, id); got != strings.Join(want, "\n") {
		t.Errorf("the tries of %q are\n%s\nwant\n%s", id, got, strings.Join(want, "\n"))
	}
}

var keepsTries = stint.Options{
	Maintenance: stint.MaintainNever, History: stint.HistoryOptions{Tries: 10},
}

// A givenTry is a try that is to end.
type givenTry struct {
	store *stint.Store
	pool  *pgxpool.Pool
	task  stint.OwnedTask
}

// A tryEnd is a way for a try to end.
type tryEnd struct {
	end  func(*testing.T, givenTry)
	want string // of a task with two tries, on its first try
	last string // of its last try, where that differs
}

func expireTry(t *testing.T, g givenTry) {
	t.Helper()
	wantErr(t, "SetStatus", g.store.SetStatus(t.Context(), g.task, "half", 0.5), nil)
	expireLeases(t, g.pool)
	maintain(t, g.store)
}

func tryEnds() map[string]tryEnd {
	returned := func(r stint.Return) func(*testing.T, givenTry) {
		return func(t *testing.T, g givenTry) {
			t.Helper()
			returnWith(t, g.store, g.task, r)
		}
	}
	late := func(r stint.Return) func(*testing.T, givenTry) {
		return func(t *testing.T, g givenTry) {
			t.Helper()
			expireTry(t, g)
			returnWith(t, g.store, g.task, r)
		}
	}
	pending, aborted, completed := stint.StatusPending, stint.StatusAborted, stint.StatusCompleted
	return map[string]tryEnd{
		"completed": {
			end:  returned(stint.Return{Code: completed, Status: "done"}),
			want: "completed by actor: done",
		},
		"completed, with a log": {
			end:  returned(stint.Return{Code: completed, Status: "done", Log: "lines"}),
			want: "completed by actor: done (lines)",
		},
		"aborted": {
			end:  returned(stint.Return{Code: aborted, Status: "no", Log: "lines"}),
			want: "aborted by actor: no (lines)",
		},
		"returned": {
			end:  returned(stint.Return{Code: pending, Status: "not yet"}),
			want: "returned by actor: not yet",
		},
		"returned for later": {
			end:  returned(stint.Return{Code: pending, Log: "lines", RetryAfter: time.Hour}),
			want: "returned by actor (lines)",
		},
		"released": {
			end:  returned(stint.Return{Code: pending, Status: "closed", Release: true}),
			want: "released by actor: closed",
		},
		"expired": {end: expireTry, want: "expired by actor: half"},
		"completed late": {
			end:  late(stint.Return{Code: completed, Status: "at last"}),
			want: "completed by actor: at last",
			last: "expired by actor: half", // refused
		},
		"returned late": {
			end:  late(stint.Return{Code: pending, Status: "no network", Log: "lines"}),
			want: "returned by actor: no network (lines)",
			last: "returned by actor: no network",
		},
		"cancelled": {
			end: func(t *testing.T, g givenTry) {
				t.Helper()
				aborts(g.task.ID)(t, g.store)
			},
			want: "cancelled by actor",
		},
		"overdue": {
			end: func(t *testing.T, g givenTry) {
				t.Helper()
				passDeadlines(t, g.pool)
				maintain(t, g.store)
			},
			want: "overdue by actor",
		},
	}
}

// However a try ends, the history says so, by whom, and with which words.
// Proves G116.
func TestHistory_TellsHowEachTryEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, c := range tryEnds() {
		for number := 1; number <= 2; number++ {
			t.Run(fmt.Sprint(name, " on try ", number), func(t *testing.T) {
				t.Parallel()
				store, pool := newStoreAndPool(t, keepsTries)
				inserted := numbered("a", 2)
				for i := range inserted {
					inserted[i].MaxTries = 2
					inserted[i].Deadline = time.Now().Add(time.Hour)
				}
				insert(t, store, inserted...)
				var before []string
				if number == 2 {
					returnWith(t, store, ownOne(t, store),
						stint.Return{Code: stint.StatusPending, Log: "one"})
					before = []string{"1 returned by actor (one)"}
					complete(t, store, ownOne(t, store))
				}
				g := givenTry{store, pool, own(t, store, 3)[0]}
				if name == "completed late" && number == 2 {
					expireTry(t, g)
				} else {
					c.end(t, g)
				}
				ended := c.want
				if number == 2 && c.last != "" {
					ended = c.last
				}
				if said, ok := strings.CutPrefix(ended, "expired by actor: "); ok && number == 2 {
					ended = "expired by actor: lease expired on try 2 of 2\n" +
						"its owner actor did not extend it\n" + said
				}
				want := append(before, fmt.Sprint(number, " ", ended))
				if strings.Contains(ended, "overdue") || strings.Contains(ended, "cancelled") {
					// Its status is that of the abort.
					if status := info(t, store, g.task.ID).Status; status != "" {
						want[len(want)-1] += ": " + status
					}
				}
				wantTries(t, store, g.task.ID, want...)
				if !info(t, store, g.task.ID).FinishedAt.IsZero() {
					retry(t, store, g.task.ID)
					wantTries(t, store, g.task.ID, want...)
				}
			})
		}
	}
}

func TestHistory_OfATaskThatWasNotTried(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("a", 1)...)
	id := numbered("a", 1)[0].ID
	wantTries(t, store, id)
	_, err := store.History(t.Context(), "nothing")
	wantTasks(t, "History", err, stint.ErrTaskNotFound, "nothing")
	_, err = store.History(t.Context(), "")
	wantErr(t, "History", err, stint.ErrInvalidArgument)
	aborts(id)(t, store)
	wantTries(t, store, id)
}

// Without the option nothing is written, and the try that ended the task is known all the same.
func TestHistory_IsNotKeptUnlessAskedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Log: "lines"})
	own(t, store, 1)
	expireLeases(t, pool)
	maintain(t, store)
	task = ownOne(t, store)
	returnWith(t, store, task, stint.Return{Code: stint.StatusAborted, Status: "no", Log: "lines"})
	wantTries(t, store, task.ID, "3 aborted by actor: no")
	retry(t, store, task.ID)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tries"); n != 0 {
		t.Errorf("%d tries are kept, want none", n)
	}
}

// The latest tries stay, up to the number and the age of the options, and go with the task.
// Proves G116.
func TestHistory_KeepsSoManyForSoLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever, History: stint.HistoryOptions{Tries: 3, Age: time.Hour},
	})
	insert(t, store, numbered("a", 2)...)
	var ids []stint.TaskID
	for try := range 5 {
		owned := own(t, store, 2)
		ids = idsOf(owned)
		for _, task := range owned {
			returnWith(t, store, task, stint.Return{
				Code: stint.StatusPending, Status: fmt.Sprint("error ", try+1),
			})
		}
	}
	maintain(t, store)
	for _, id := range ids {
		wantTries(t, store, id, "3 returned by actor: error 3", "4 returned by actor: error 4",
			"5 returned by actor: error 5")
	}
	exec(t, pool, "UPDATE stint.tries SET ended_at = ended_at - interval '1 hour' WHERE tries = 3")
	maintain(t, store)
	for _, id := range ids {
		wantTries(t, store, id, "4 returned by actor: error 4", "5 returned by actor: error 5")
	}
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), ids[:1])), nil)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tries"); n != 2 {
		t.Errorf("%d tries are left, want those of the task that is", n)
	}
}

// What a task that is dropped at once said goes with it.
func TestHistory_IsNotKeptOfTasksThatAreNot(t *testing.T) {
	t.Parallel()
	opts := keepsTries
	opts.Retention = stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone}
	store, pool := newStoreAndPool(t, opts)
	insert(t, store, append(numbered("a", 1), stint.Task{ID: "b", Action: "act"},
		after("c", "b"))...)
	for _, task := range own(t, store, 2) {
		returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted, Log: "lines"})
	}
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tries"); n != 1 {
		t.Errorf("%d tries are kept, want one", n)
	}
	wantTries(t, store, "b", "1 completed by actor (lines)") // its dependent may ask for it
}

// Tasks that were fetched in one span, and come back alike, have a log each.
func TestHistory_KeepsTheLogsOfASpan(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, keepsTries)
	insert(t, store, numbered("a", 5)...)
	owned := own(t, store, 5)
	returns := completed(owned)
	for _, i := range []int{1, 2, 4} {
		returns[i].Log = fmt.Sprint("line ", i)
	}
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	for i, task := range owned {
		want := "1 completed by actor"
		if returns[i].Log != "" {
			want += fmt.Sprintf(" (line %d)", i)
		}
		wantTries(t, store, task.ID, want)
	}
}

// A late owner's task has not ended after all, and its try is one, however often it was late.
func TestHistory_OfALateOwnerIsOneTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	opts := keepsTries
	opts.History.Tries = 2
	store, pool := newStoreAndPool(t, opts)
	insert(t, store, numbered("a", 1)...)
	returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusPending, Status: "first"})
	owned := ownOne(t, store)
	ownedAt := info(t, store, owned.ID).OwnedAt
	for range 3 {
		expireLeases(t, pool)
		maintain(t, store)
		_, err := store.ExtendTasksOwnership(t.Context(), "actor", []stint.OwnedTask{owned},
			time.Hour)
		wantErr(t, "ExtendTasksOwnership", err, nil)
		wantTries(t, store, owned.ID, "1 returned by actor: first")
	}
	expireLeases(t, pool)
	maintain(t, store)
	returnWith(t, store, owned, stint.Return{Code: stint.StatusPending, Status: "late"})
	maintain(t, store)
	wantTries(t, store, owned.ID, "1 returned by actor: first", "2 returned by actor: late")
	history, err := store.History(t.Context(), owned.ID)
	if err != nil || !history.Tries[1].OwnedAt.Equal(ownedAt) {
		t.Errorf("History = %+v, %v, want the try to begin at %v", history, err, ownedAt)
	}
	owned = ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	_, err = store.ExtendTasksOwnership(t.Context(), "actor", []stint.OwnedTask{owned}, time.Hour)
	wantErr(t, "ExtendTasksOwnership", err, nil)
	aborts(owned.ID)(t, store)
	wantTries(t, store, owned.ID, "2 returned by actor: late", // the expiry took a place, too
		"3 cancelled by actor: "+info(t, store, owned.ID).Status)
}

// The log of the try that ended a task stays when the task is retried.
func TestHistory_KeepsTheLogOfARetriedTask(t *testing.T) {
	t.Parallel()
	opts := keepsTries
	opts.History.Tries = 1
	store, _ := newStoreAndPool(t, opts)
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	returnWith(t, store, task, stint.Return{
		Code: stint.StatusAborted, Status: "no", Log: "lines",
	})
	retry(t, store, task.ID)
	maintain(t, store)
	wantTries(t, store, task.ID, "1 aborted by actor: no (lines)")
}

// Returns of which some are kept lock all their tasks in one order, as those without a history do.
func TestHistory_ReturnsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, keepsTries)
	insert(t, store, numbered("a", 1)...)
	insert(t, store, numbered("b", 1)...)
	owned := []stint.OwnedTask{ownOne(t, store), ownOne(t, store)}
	returns := completed(owned)
	returns[1].Log = "lines"
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(),
		"SELECT FROM stint.leased WHERE lo = (SELECT min(lo) FROM stint.leased) FOR UPDATE")
	wantErr(t, "lock", err, nil)
	aborting := start(func() (stint.Affected, error) {
		return store.AbortTasks(t.Context(), idsOf(owned), "x")
	})
	waitForLocks(t, pool, 1)
	returning := start(func() ([]error, error) {
		return store.ReturnTasks(t.Context(), returns)
	})
	waitForLocks(t, pool, 2)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantErr(t, "AbortTasks", errOf(ends(t, "AbortTasks", aborting)), nil)
	wantErr(t, "ReturnTasks", errOf(ends(t, "ReturnTasks", returning)), nil)
	wantNoDeadlocks(t, pool)
}

// Any text can be kept, and of a long log its end.
func TestHistory_CutsLogsToTheirEnds(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, keepsTries)
	insert(t, store, numbered("a", 1)...)
	const kept = 16 << 10
	for log, want := range map[string]string{
		"a\x00b\xffc": "a\ufffdb\ufffdc",
		"first" + strings.Repeat("€", kept/3) + "last": strings.Repeat("€", (kept-4)/3) + "last",
	} {
		task := ownOne(t, store)
		returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Log: log})
		history, err := store.History(t.Context(), task.ID)
		if err != nil || history.Tries[len(history.Tries)-1].Log != want {
			t.Errorf("History = %+v, %v, want the log %.20q", history, err, want)
		}
	}
}

func TestNew_RefusesHistoryOptions(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	for _, options := range []stint.HistoryOptions{{Tries: -1}, {Tries: 1001}, {Age: -1}} {
		_, err := stint.New(pool, stint.Options{History: options})
		wantErr(t, fmt.Sprintf("New with %+v", options), err, stint.ErrInvalidArgument)
	}
}
