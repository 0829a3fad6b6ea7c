package stint_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// lose has actor own the task and lose it.
func lose(t *testing.T, store *stint.Store, pool *pgxpool.Pool) stint.OwnedTask {
	t.Helper()
	owned := ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	return owned
}

// A task whose owners die one after another is aborted, however many tries are left, with a cause
// of its own; its dependents fall, people find it among the failed tasks, and its last owner may
// say why.
//
// Proves G330, R13.
func TestMaxLosses_AbortTaskWithCauseOfItsOwn(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{History: stint.HistoryOptions{Tries: 9}})
	insert(t, store, stint.Task{ID: "poison", Action: "act"}, after("dependent", "poison"))
	for range 2 {
		lose(t, store, pool)
		wantState(t, store, stint.StateReady, "poison")
	}
	last := lose(t, store, pool)
	got := info(t, store, "poison")
	if got.AbortCause != stint.CauseLost || got.Tries != 3 || got.Actor != "actor" {
		t.Errorf("it is %s, %s, after %d tries", got.State, got.AbortCause, got.Tries)
	}
	if got := info(t, store, "dependent").AbortCause; got != stint.CauseDependency {
		t.Errorf("the dependent has the cause %q", got)
	}
	explained, err := store.Explain(t.Context(), "poison")
	wantErr(t, "Explain", err, nil)
	if want := "several of its owners in a row died"; !strings.Contains(explained.String(), want) {
		t.Errorf("Explain says %q, want %q in it", explained, want)
	}
	problems, err := store.Problems(t.Context(), 10)
	wantErr(t, "Problems", err, nil)
	isPoison := func(task stint.TaskInfo) bool { return task.ID == "poison" }
	if !slices.ContainsFunc(problems.Failed, isPoison) || len(problems.Errors) != 1 {
		t.Errorf("failed: %v; errors: %v", problems.Failed, problems.Errors)
	}
	history, err := store.History(t.Context(), "poison")
	wantErr(t, "History", err, nil)
	for i, try := range history.Tries {
		if try.Number != i+1 || try.Outcome != stint.TryExpired || len(history.Tries) != 3 {
			t.Errorf("try %d of %d was number %d, %s", i+1, len(history.Tries), try.Number,
				try.Outcome)
		}
	}
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	if len(stats.Actions) != 1 || stats.Actions[0].Lost != 1 {
		t.Errorf("stats: %+v", stats.Actions)
	}
	pending := func() error {
		return store.ReturnTask(t.Context(), last.ID, last.Token, "late", stint.StatusPending)
	}
	wantErr(t, "ReturnTask", pending(), nil)
	wantErr(t, "ReturnTask again", pending(), stint.ErrAlreadyReturned)
	if got := info(t, store, "poison"); got.Status != "late" || got.AbortCause != stint.CauseLost {
		t.Errorf("it says %q, %s", got.Status, got.AbortCause)
	}
}

// Tasks that a cluster of shards inserts for itself are never given up: others wait for them.
//
// Proves G143, G330.
func TestMaxLosses_LeaveTasksOfClustersAlone(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "stint.report/1", Action: "stint.Report/2"})
	for range 4 {
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"stint.Report/2"}, time.Hour)
		if wantErr(t, "OwnTasks", err, nil); len(owned) != 1 {
			t.Fatalf("OwnTasks = %v", owned)
		}
		expireLeases(t, pool)
		maintain(t, store)
		wantState(t, store, stint.StateReady, "stint.report/1")
	}
}

// Only losses in a row count: a try that was returned ends the row, one that was given back does
// not count, and an owner that comes back has lost nothing. A retry begins the count anew.
//
// Proves G330.
func TestMaxLosses_CountInARow(t *testing.T) {
	t.Parallel()
	for name, test := range lossesInARow() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, test.options)
			test.task.ID, test.task.Action = "a", "act"
			insert(t, store, test.task)
			for range cmp.Or(test.first, 2) {
				lose(t, store, pool)
			}
			if test.cause != "" {
				if got := info(t, store, "a").AbortCause; got != test.cause {
					t.Errorf("the cause is %q, want %q", got, test.cause)
				}
				return
			}
			if test.meantime != nil {
				test.meantime(t, store, pool)
			}
			losses := 0
			for ; losses < 6 && info(t, store, "a").State == stint.StateReady; losses++ {
				lose(t, store, pool)
			}
			got := info(t, store, "a").AbortCause
			if test.more == 0 && got != "" || test.more > 0 &&
				(losses != test.more || got != stint.CauseLost) {
				t.Errorf("aborted (%q) after %d losses more, want %d", got, losses, test.more)
			}
		})
	}
}

// A lossCase is a task that owners lose.
type lossCase struct {
	options  stint.Options
	task     stint.Task
	first    int // losses before that, if not two
	meantime func(*testing.T, *stint.Store, *pgxpool.Pool)
	more     int // losses after that, until the task is aborted; 0: never
	cause    stint.AbortCause
}

func lossesInARow() map[string]lossCase {
	returns := func(r stint.Return) func(*testing.T, *stint.Store, *pgxpool.Pool) {
		return func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) {
			t.Helper()
			r.Code = stint.StatusPending
			returnWith(t, store, ownOne(t, store), r)
		}
	}
	return map[string]lossCase{
		"failed":   {meantime: returns(stint.Return{}), more: 3},
		"released": {meantime: returns(stint.Return{Release: true}), more: 1},
		"snoozed": {
			meantime: func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
				t.Helper()
				returns(stint.Return{Release: true, RetryAfter: time.Hour})(t, store, pool)
				makeDue(t, pool)
				maintain(t, store)
			},
			more: 1,
		},
		"late, and extended": {
			first: 1,
			meantime: func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
				t.Helper()
				owned := lose(t, store, pool)
				extended, err := store.ExtendTasksOwnership(t.Context(), "actor",
					[]stint.OwnedTask{owned}, time.Hour)
				if err != nil || !extended[0] {
					t.Fatalf("ExtendTasksOwnership = %v, %v", extended, err)
				}
				returnWith(t, store, owned, stint.Return{
					Code: stint.StatusPending, Release: true,
				})
			},
			more: 2,
		},
		"late, and returned": {
			first: 1,
			meantime: func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
				t.Helper()
				owned := lose(t, store, pool)
				returnWith(t, store, owned, stint.Return{Code: stint.StatusPending})
			},
			more: 3,
		},
		"retried": {
			meantime: func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
				t.Helper()
				lose(t, store, pool)
				retry(t, store, "a")
			},
			more: 3,
		},
		"aborted, retried and failed": { // the next loss is on the try behind the last one
			meantime: func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
				t.Helper()
				returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusAborted})
				retry(t, store, "a")
				for range 2 {
					returns(stint.Return{})(t, store, pool)
				}
			},
			more: 3,
		},
		"five":        {options: stint.Options{MaxLosses: 5}, more: 3},
		"never":       {options: stint.Options{MaxLosses: stint.UnlimitedLosses}},
		"few tries":   {task: stint.Task{MaxTries: 2}, more: 0, cause: stint.CauseTries},
		"three tries": {task: stint.Task{MaxTries: 3}, more: 1},
		"endless":     {task: stint.Task{MaxTries: stint.UnlimitedTries}, more: 1},
	}
}

// What is counted goes with its task.
func TestMaxLosses_AreForgottenWithTheTask(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"))
	own(t, store, 2)
	expireLeases(t, pool)
	maintain(t, store)
	_, err := store.DeleteTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "DeleteTasks", err, nil)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.losses"); n != 1 {
		t.Errorf("the losses of %d tasks are kept, want those of one", n)
	}
	exec(t, pool, `INSERT INTO stint.losses (key, tries, losses)
		SELECT key + 1e12, 1, 1 FROM generate_series(1, 2500) AS key`)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.losses"); n != 1 {
		t.Errorf("the losses of %d tasks are kept after a pass, want those of one", n)
	}
}

// Nobody is told that a task was lost that has ended otherwise since, even if the process that
// retried it was of a release that forgets no losses; and a loss from the time when the clock was
// ahead is mended with its end.
func TestMaxLosses_AreToldOfTasksThatEndedByThem(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	for range 3 {
		lose(t, store, pool)
	}
	fromTheFuture(t, pool, "losses", "ended_at")
	fromTheFuture(t, pool, "finished", "finished_at")
	maintain(t, store)
	if yields[bool](t, pool, "SELECT bool_or(ended_at > now()) FROM stint.losses") {
		t.Error("the task is to be lost in the future")
	}
	failed := func() int {
		t.Helper()
		problems, err := store.Problems(t.Context(), 10)
		wantErr(t, "Problems", err, nil)
		return len(problems.Failed)
	}
	if failed() != 1 {
		t.Errorf("%d tasks failed, want one", failed())
	}
	exec(t, pool, "CREATE TABLE lost AS TABLE stint.losses")
	retry(t, store, "a")
	exec(t, pool, "INSERT INTO stint.losses SELECT * FROM lost")
	lose(t, store, pool)
	if yields[int](t, pool, "SELECT count(ended_at) FROM stint.losses") != 0 {
		t.Error("the task that is ready has ended")
	}
	exec(t, pool, "UPDATE stint.losses SET ended_at = now()")
	_, err := store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "off")
	wantErr(t, "AbortTasks", err, nil)
	if failed() != 0 {
		t.Error("the task failed, though somebody has aborted it")
	}
}

// An option that nobody can mean is refused.
//
// Proves G167.
func TestNew_RefusesMaxLossesOutOfRange(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	for _, losses := range []int{-2, 1, 2, 1001} {
		_, err := stint.New(pool, stint.Options{MaxLosses: losses})
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) {
			t.Errorf("New with MaxLosses of %d = %v, want an ArgumentError", losses, err)
		}
	}
}
