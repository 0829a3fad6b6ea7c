package stint_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves R12.
func TestReturnTask_ReadiesDependentsWhenTheLastSignalArrives(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c", "a", "b"), after("d", "c"))
	wantState(t, store, stint.StateBlocked, "c", "d")
	finish(t, store, "a", stint.StatusCompleted)
	wantState(t, store, stint.StateBlocked, "c", "d")
	finish(t, store, "b", stint.StatusCompleted)
	wantState(t, store, stint.StateReady, "c")
	c := ownOne(t, store)
	if c.Completed != 2 || c.Aborted != 0 {
		t.Errorf("the owner is told of %d completed and %d aborted", c.Completed, c.Aborted)
	}
	if err := store.ReturnTask(t.Context(), c.ID, c.Token, "", stint.StatusPending); err != nil {
		t.Fatal(err)
	}
	if c = ownOne(t, store); c.Completed != 2 || c.Try != 2 {
		t.Errorf("at try %d the owner is told of %d completed", c.Try, c.Completed)
	}
	if err := store.ReturnTask(t.Context(), c.ID, c.Token, "", stint.StatusCompleted); err != nil {
		t.Fatal(err)
	}
	finish(t, store, "d", stint.StatusCompleted)
}

// Proves R12.
func TestReturnTask_AbortsDependentsTransitivelyByTheirPolicies(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	anyway := after("anyway", "b", "other")
	anyway.OnAbort = stint.RunAnyway
	insert(t, store, after("a"), after("b", "a"), after("c", "b"), after("d", "c"),
		after("other"), anyway, after("last", "anyway"))
	finish(t, store, "a", stint.StatusAborted)
	for _, id := range []stint.TaskID{"b", "c", "d"} {
		if got := info(t, store, id); got.AbortCause != stint.CauseDependency {
			t.Errorf("%q is %s, %q", id, got.State, got.AbortCause)
		}
	}
	finish(t, store, "other", stint.StatusCompleted)
	got := ownOne(t, store)
	if got.ID != "anyway" || got.Completed != 1 || got.Aborted != 1 {
		t.Errorf("own %q, told of %d completed, %d aborted", got.ID, got.Completed, got.Aborted)
	}
}

// Proves R12.
func TestReturnTask_CompletesSpontaneousTasksInTheSameTransaction(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), join("j", "a"), join("k", "j"), join("l", "k"), join("m", "l"),
		join("n", "m"), after("z", "n"))
	finish(t, store, "a", stint.StatusCompleted)
	wantState(t, store, stint.StateCompleted, "j", "k", "l", "m", "n")
	if z := ownOne(t, store); z.ID != "z" || z.Completed != 1 {
		t.Errorf("own %q, told of %d", z.ID, z.Completed)
	}
}

func TestInsertTasks_CompletesSpontaneousTasksThatWaitForNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, join("j"), join("k", "j"), after("z", "k"))
	wantState(t, store, stint.StateCompleted, "j", "k")
	wantState(t, store, stint.StateReady, "z")
}

func TestInsertTasks_SettlesPredecessorsThatHaveEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("done"))
	finish(t, store, "done", stint.StatusCompleted)
	insert(t, store, after("bad"))
	finish(t, store, "bad", stint.StatusAborted)
	anyway := after("anyway", "done", "bad")
	anyway.OnAbort = stint.RunAnyway
	insert(t, store, after("next", "done"), after("doomed", "bad"), after("too", "doomed"), anyway)
	wantState(t, store, stint.StateReady, "next", "anyway")
	wantState(t, store, stint.StateAborted, "doomed", "too")
	owned := own(t, store, 10)
	if len(owned) != 2 || owned[1].Completed != 1 || owned[1].Aborted != 1 {
		t.Errorf("own %+v", owned)
	}
}

// Proves G70.
func TestInputs_AreTheResultsOfThePredecessorsThroughJoins(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c"), join("j", "a", "b"), after("z", "j", "c"))
	for _, task := range own(t, store, 3) {
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			Result: []byte("result of " + task.ID),
		}})
		if err != nil || verdicts[0] != nil {
			t.Fatal(err, verdicts)
		}
	}
	z := ownOne(t, store)
	if z.Completed != 3 {
		t.Errorf("told of %d completed", z.Completed)
	}
	inputs, err := store.Inputs(t.Context(), z)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, input := range inputs {
		got = append(got, string(input.Result))
	}
	if want := []string{"result of a", "result of b", "result of c"}; !slices.Equal(got, want) {
		t.Errorf("Inputs = %q, want %q", got, want)
	}
}

// Proves R17.
func TestDeleteTasks_DeletesWhatIsLeftWithNothingToWaitFor(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"), after("d", "c"), after("e", "a", "b"), stint.Task{
		ID: "c", Action: "act", After: []stint.TaskID{"a"}, Deadline: time.Now().Add(time.Hour),
	})
	err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a"}))
	wantErr(t, "DeleteTasks", err, nil)
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"a", "c", "d"})
	wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, "a", "c", "d")
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.deadlines"); n != 0 {
		t.Errorf("%d deadlines are watched of tasks that are gone", n)
	}
	finish(t, store, "b", stint.StatusCompleted)
	finish(t, store, "e", stint.StatusCompleted)
	// A predecessor that has finished counts also when it is gone.
	insert(t, store, after("f"), after("g"), after("h", "f", "g"))
	finish(t, store, "f", stint.StatusCompleted)
	for _, id := range []stint.TaskID{"f", "g"} {
		wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{id})), nil)
	}
	wantState(t, store, stint.StateReady, "h")
}

func TestAddDependencies_BlocksPendingTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c"))
	add := func(after, run stint.TaskID) error {
		return store.AddDependencies(t.Context(), []stint.Dependency{
			{Predecessor: after, Dependent: run},
		})
	}
	wantErr(t, "AddDependencies", add("b", "a"), nil)
	wantErr(t, "AddDependencies", add("c", "b"), nil)
	wantErr(t, "AddDependencies", add("c", "b"), nil)
	wantErr(t, "AddDependencies", add("a", "c"), stint.ErrCycle)
	wantErr(t, "AddDependencies", add("x", "c"), stint.ErrTaskNotFound)
	c := ownOne(t, store)
	wantErr(t, "AddDependencies", add("a", "c"), stint.ErrTaskStarted)
	wantErr(t, "ReturnTask",
		store.ReturnTask(t.Context(), "c", c.Token, "", stint.StatusCompleted), nil)
	wantErr(t, "AddDependencies", add("c", "a"), stint.ErrTaskFinished)
	finish(t, store, "b", stint.StatusCompleted)
	finish(t, store, "a", stint.StatusCompleted)
}

// Each edge counts once, also if the task waits already, or the edge is there.
func TestAddDependencies_ABlockedTaskWaitsForOneMore(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c"))
	for _, predecessor := range []stint.TaskID{"a", "b", "a"} {
		wantErr(t, "AddDependencies", addDependency(t, store, predecessor, "c"), nil)
	}
	finish(t, store, "a", stint.StatusCompleted)
	wantState(t, store, stint.StateBlocked, "c")
	finish(t, store, "b", stint.StatusCompleted)
	wantState(t, store, stint.StateReady, "c")
}

// A task that was tried before keeps its tries while it waits.
func TestAddDependencies_LeavesATaskItsTries(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, time.Hour} {
		store := newStore(t)
		insert(t, store, after("a"), after("b"))
		returnWith(t, store, ownOne(t, store),
			stint.Return{Code: stint.StatusPending, RetryAfter: later})
		wantErr(t, "AddDependencies", addDependency(t, store, "b", "a"), nil)
		if got := info(t, store, "a"); got.State != stint.StateBlocked || got.Tries != 1 {
			t.Errorf("a is %s after %d tries, want it blocked after 1", got.State, got.Tries)
		}
		finish(t, store, "b", stint.StatusCompleted)
		if got := info(t, store, "a"); got.Tries != 1 {
			t.Errorf("a is %s after %d tries, want 1", got.State, got.Tries)
		}
	}
}

// A task whose lease has expired cannot be made to wait as long as its owner may return it.
// Proves R8.
func TestAddDependencies_RefusesATaskOfALateOwner(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"))
	owned := ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	wantState(t, store, stint.StateReady, "a")
	wantErr(t, "AddDependencies", addDependency(t, store, "b", "a"), stint.ErrTaskStarted)
	complete(t, store, owned)
}

// wantSignals checks how many signals a task has got, of how many, as both verbs that tell them do.
func wantSignals(t *testing.T, store *stint.Store, id stint.TaskID, signals, of int) {
	t.Helper()
	got := info(t, store, id)
	why, err := store.Explain(t.Context(), id)
	wantErr(t, "Explain", err, nil)
	for _, task := range []stint.TaskInfo{got, why.Task} {
		if task.Signals != signals || task.TotalDependencies != of {
			t.Errorf("%q has %d of %d signals, want %d of %d", id, task.Signals,
				task.TotalDependencies, signals, of)
		}
	}
}

// A waiter is told of a task as it is, not as it was when the wait began.
//
// Proves G350.
func TestWaitForTask_TellsTheSignalsOfTheEnd(t *testing.T) {
	t.Parallel()
	h := newHeardStore(t, stint.Options{})
	last := after("last", "first")
	last.PostResult = true
	insert(t, h.Store, after("first"), last)
	waiting := h.waitFor(t, "last")
	finish(t, h.Store, "first", stint.StatusCompleted)
	finish(t, h.Store, "last", stint.StatusCompleted)
	got, err := ends(t, "WaitForTask", waiting)
	wantErr(t, "WaitForTask", err, nil)
	if got.Signals != 1 || got.TotalDependencies != 1 || got.OwnedAt.IsZero() {
		t.Errorf("WaitForTask = %+v", got)
	}
}

// Proves G350.
func TestTaskInfo_TellsTheSignalsSoFarAndHowManyThereWillBe(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), newStore(t)
	anyway := after("end", "a", "b", "join")
	anyway.OnAbort = stint.RunAnyway
	insert(t, store, after("a"), after("b"), after("c"), join("join", "c", "b"), anyway)
	wantSignals(t, store, "a", 0, 0)
	wantSignals(t, store, "end", 0, 3)
	finish(t, store, "a", stint.StatusCompleted)
	finish(t, store, "b", stint.StatusAborted)
	wantSignals(t, store, "end", 3, 3) // the join went down with b
	wantSignals(t, store, "join", 2, 2)
	finish(t, store, "c", stint.StatusCompleted)
	finish(t, store, "end", stint.StatusCompleted)
	wantSignals(t, store, "end", 3, 3)

	insert(t, store, after("d"), after("e"), after("later", "d"))
	finish(t, store, "d", stint.StatusCompleted)
	wantSignals(t, store, "later", 1, 1)
	wantErr(t, "AddDependencies", addDependency(t, store, "e", "later"), nil)
	wantSignals(t, store, "later", 1, 2)
	_, err := store.DeleteTasks(ctx, []stint.TaskID{"d"})
	wantErr(t, "DeleteTasks", err, nil)
	wantSignals(t, store, "later", 1, 2) // d has signalled
	finish(t, store, "e", stint.StatusCompleted)
	wantSignals(t, store, "later", 2, 2)
	finish(t, store, "later", stint.StatusCompleted)
	_, err = store.DeleteTasks(ctx, []stint.TaskID{"e"})
	wantErr(t, "DeleteTasks", err, nil)
	wantSignals(t, store, "later", 1, 1) // e went after it had ended, d before
}
