package stint_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G62.
func TestRetryTasks_OpensATaskAndWhatItBroughtDown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b", "a"), after("c", "b", "other"), after("other"),
		join("join", "b", "c"),
		after("end", "join"))
	fail(t, store, "a")
	wantState(t, store, stint.StateAborted, "a", "b", "c", "join", "end")
	retry(t, store, "a")
	wantState(t, store, stint.StateReady, "a", "other")
	wantState(t, store, stint.StateBlocked, "b", "c", "join", "end")
	if got := info(t, store, "a"); got.Tries != 0 || got.Status != "" || got.Actor != "" {
		t.Errorf("a was opened as %+v", got)
	}
	want := []stint.TaskID{"a", "b", "c", "end"}
	isOther := func(id stint.TaskID) bool { return id == "other" }
	got := slices.DeleteFunc(completeAll(t, store), isOther)
	if !slices.Equal(got, want) {
		t.Errorf("completed %q, want %q", got, want)
	}
	wantState(t, store, stint.StateCompleted, "join")
}

func TestRetryTasks_GivesAllTriesAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 2})
	for range 2 {
		for range 2 {
			returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusPending})
		}
		if got := info(t, store, "a"); got.AbortCause != stint.CauseTries || got.Tries != 2 {
			t.Fatalf("a = %+v, want its tries exhausted", got)
		}
		retry(t, store, "a")
	}
	if task := ownOne(t, store); task.Try != 1 {
		t.Errorf("fetched for try %d, want the first", task.Try)
	}
}

// A finisher that runs anyway and has not begun waits for the retried task, and learns how it ended
// at last.
// Proves G62.
func TestRetryTasks_MakesPendingDependentsWaitAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("open"),
		anyway("ready", "a"), anyway("later", "a", "b"), anyway("blocked", "a", "open"),
		stint.Task{
			ID: "scheduled", Action: "act", After: []stint.TaskID{"b"}, OnAbort: stint.RunAnyway,
			NotBefore: time.Now().Add(time.Hour),
		})
	fail(t, store, "a", "b")
	wantState(t, store, stint.StateReady, "ready", "later")
	wantState(t, store, stint.StateScheduled, "scheduled")
	retry(t, store, "a", "b")
	wantState(t, store, stint.StateBlocked, "ready", "later", "blocked", "scheduled")
	fail(t, store, "b")
	wantState(t, store, stint.StateScheduled, "scheduled")
	completedOf := map[stint.TaskID]string{}
	for {
		owned := own(t, store, 1)
		if len(owned) == 0 {
			break
		}
		completedOf[owned[0].ID] = fmt.Sprint(owned[0].Completed, owned[0].Aborted)
		returnWith(t, store, owned[0], stint.Return{Code: stint.StatusCompleted})
	}
	wanted := map[stint.TaskID]string{"ready": "1 0", "later": "1 1", "blocked": "2 0"}
	for id, want := range wanted {
		if completedOf[id] != want {
			t.Errorf("%q was told of %q, want %q", id, completedOf[id], want)
		}
	}
}

// Proves G62.
func TestRetryTasks_LeavesDependentsAloneThatHaveBegun(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), anyway("done", "a"), anyway("begun", "a"), anyway("late", "a"))
	fail(t, store, "a")
	for _, task := range own(t, store, 3) {
		if task.ID == "done" {
			returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
		}
	}
	retry(t, store, "a")
	wantState(t, store, stint.StateCompleted, "done")
	wantState(t, store, stint.StateInProgress, "begun", "late")
	if got := completeAll(t, store); !slices.Equal(got, []stint.TaskID{"a"}) {
		t.Errorf("completed %q, want a alone", got)
	}
}

func TestRetryTasks_LeavesDownWhatAnotherPredecessorKeepsDown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("both", "a", "b"), after("end", "both"))
	fail(t, store, "a", "b")
	retry(t, store, "a")
	wantState(t, store, stint.StateReady, "a")
	wantState(t, store, stint.StateAborted, "b", "both", "end")
	retry(t, store, "b")
	wantState(t, store, stint.StateBlocked, "both", "end")
	if got := completeAll(t, store); len(got) != 4 || got[3] != "end" {
		t.Errorf("completed %q, want all, and end last", got)
	}
}

func TestRetryTasks_RefusesWhatCannotBegin(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	ctx := t.Context()
	insert(t, store, after("a"), after("b", "a"), after("c", "b"), after("d"), anyway("e", "d"))
	fail(t, store, "a", "d")
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{"e"}, "")), nil)
	wantTasks(t, "RetryTasks", errOf(store.RetryTasks(ctx, []stint.TaskID{"c", "d"})),
		stint.ErrPredecessorAborted, "b")
	wantTasks(t, "RetryTasks",
		errOf(store.RetryTasks(ctx, []stint.TaskID{"a", "no", "none", "no"})),
		stint.ErrTaskNotFound, "no", "none")
	wantErr(t, "RetryTasks",
		errOf(store.RetryTasks(ctx, []stint.TaskID{""})), stint.ErrInvalidArgument)
	wantState(t, store, stint.StateAborted, "a", "b", "c", "d", "e")
	retry(t, store)
	retry(t, store, "e") // runs anyway
	wantState(t, store, stint.StateReady, "e")
	retry(t, store, "a", "b")
	wantState(t, store, stint.StateBlocked, "b", "c")
}

func TestRetryTasks_LeavesTasksAloneThatAreNotFinal(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("owned"), after("ready"), after("blocked", "ready"))
	token := ownOne(t, store)
	retry(t, store, "owned", "ready", "blocked")
	wantState(t, store, stint.StateInProgress, "owned")
	wantState(t, store, stint.StateBlocked, "blocked")
	returnWith(t, store, token, stint.Return{Code: stint.StatusCompleted})
}

// Of many tasks that were returned together one is opened; its neighbours stay as they are.
func TestRetryTasks_OpensOneOfASpan(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, numbered("t", 100)...)
	owned := own(t, store, 100)
	_, err := store.ReturnTasks(t.Context(), completed(owned))
	wantErr(t, "ReturnTasks", err, nil)
	retry(t, store, "t000050")
	_, err = store.ReturnTasks(t.Context(), completed(owned[50:51]))
	wantErr(t, "ReturnTasks", err, nil)
	if got := completeAll(t, store); !slices.Equal(got, []stint.TaskID{"t000050"}) {
		t.Errorf("completed %q, want t000050", got)
	}
}

func TestRetryTasks_BeginsACompletedTaskAnew(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	ctx := t.Context()
	insert(t, store,
		stint.Task{ID: "a", Action: "act", PostResult: true}, after("used", "a"),
		after("waits", "a", "gate"),
		stint.Task{ID: "gate", Action: "gate"})
	first := ownOne(t, store)
	returnWith(t, store, first, stint.Return{Code: stint.StatusCompleted, Result: []byte("1")})
	use := ownOne(t, store)
	retry(t, store, "a")
	wantErr(t, "ReturnTask", store.ReturnTask(ctx, "a", first.Token, "", stint.StatusCompleted),
		stint.ErrInvalidToken)
	second := ownOne(t, store)
	returnWith(t, store, second, stint.Return{Code: stint.StatusCompleted, Result: []byte("2")})
	got, err := store.WaitForTask(ctx, "a")
	if err != nil || string(got.Result) != "2" || got.Tries != 1 {
		t.Errorf("WaitForTask = %+v, %v; want the second result", got, err)
	}
	returnWith(t, store, use, stint.Return{Code: stint.StatusCompleted})
	gate, err := store.OwnTasks(ctx, "actor", 1, []string{"gate"}, time.Hour)
	if err != nil || len(gate) != 1 {
		t.Fatalf("OwnTasks = %v, %v", gate, err)
	}
	returnWith(t, store, gate[0], stint.Return{Code: stint.StatusCompleted})
	waits := ownOne(t, store)
	inputs, err := store.Inputs(ctx, waits)
	if err != nil || len(inputs) != 2 || waits.Completed != 2 ||
		!slices.ContainsFunc(inputs, func(i stint.Input) bool { return string(i.Result) == "2" }) {
		t.Errorf("Inputs = %+v of %d, %v; want the second result", inputs, waits.Completed, err)
	}
}

// A completed join completes again, and its dependents that are pending wait for it meanwhile.
func TestRetryTasks_OfAJoinCountsAnew(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("gate"),
		join("join", "a", "b"),
		after("end", "join", "gate"))
	for _, task := range own(t, store, 3) {
		if task.ID == "gate" {
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Release: true})
			continue
		}
		returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
	}
	retry(t, store, "join")
	wantState(t, store, stint.StateCompleted, "join")
	retry(t, store, "join", "b")
	wantState(t, store, stint.StateBlocked, "join")
	for _, task := range own(t, store, 10) {
		returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
	}
	if end := ownOne(t, store); end.ID != "end" || end.Completed != 3 || end.Aborted != 0 {
		t.Errorf("the end was told %+v, want three that completed", end)
	}
}

func TestRetryTasks_WatchesDeadlinesAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "a", Action: "act", Deadline: time.Now().Add(time.Hour)})
	fail(t, store, "a")
	exec(t, pool, "DELETE FROM stint.deadlines") // as maintenance does when it has passed
	retry(t, store, "a")
	passDeadlines(t, pool)
	maintain(t, store)
	if got := info(t, store, "a"); got.AbortCause != stint.CauseExpired {
		t.Errorf("a = %+v, want it expired", got)
	}
}

func TestRetryTasks_IsUndoneWithTheCallersTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b", "a"))
	fail(t, store, "a")
	tx := begin(t, pool)
	retry(t, store.WithTx(tx), "a")
	wantState(t, store.WithTx(tx), stint.StateReady, "a")
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantState(t, store, stint.StateAborted, "a", "b")
}

// Somebody inserts what waits for a finished task at the moment when it is opened: it waits for the
// task's new end, or had the old one before.
// Proves G62.
func TestRetryTasks_WaitsForThoseWhoCountOnAnEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, after("a"))
	completeAll(t, store)
	tx := begin(t, pool)
	insert(t, store.WithTx(tx), after("b", "a"))
	retrying := start(func() (any, error) {
		return nil, errOf(store.RetryTasks(ctx, []stint.TaskID{"a"}))
	})
	wantGoingOn(t, "RetryTasks", retrying)
	wantErr(t, "Commit", tx.Commit(ctx), nil)
	if _, err := ends(t, "RetryTasks", retrying); err != nil {
		t.Fatal(err)
	}
	wantState(t, store, stint.StateBlocked, "b")

	completeAll(t, store)
	tx = begin(t, pool)
	retry(t, store.WithTx(tx), "a")
	inserting := start(func() (any, error) {
		return nil, store.InsertTasks(ctx, []stint.Task{after("c", "a")})
	})
	deleting := start(func() (any, error) {
		return nil, errOf(store.DeleteTasks(ctx, []stint.TaskID{"a"}))
	})
	wantGoingOn(t, "InsertTasks", inserting)
	wantGoingOn(t, "DeleteTasks", deleting)
	wantErr(t, "Commit", tx.Commit(ctx), nil)
	if _, err := ends(t, "InsertTasks", inserting); !errors.Is(err, stint.ErrTaskNotFound) {
		wantErr(t, "InsertTasks", err, nil) // unless the deletion was first
	}
	if _, err := ends(t, "DeleteTasks", deleting); err != nil {
		t.Fatal(err)
	}
}

func TestRetryTasks_WakesThoseWhoWaitToOwnTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	insert(t, h.Store, after("a"))
	fail(t, h.Store, "a")
	awaiting := h.await(t.Context(), t, 1)
	retry(t, h.Store, "a")
	wantOwned(t, awaiting, "a")
}
