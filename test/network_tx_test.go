package stint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// goOn is a running task that inserts successors, lets a stored task wait for them and returns
// itself, in one commit.
func goOn(ctx context.Context, store *stint.Store, owned stint.OwnedTask) error {
	err := store.InsertTasks(ctx, []stint.Task{
		after("copy1", owned.ID),
		{ID: "copy2", Action: "act", ToSignalAfter: []stint.TaskID{"done"}},
	})
	if err != nil {
		return err
	}
	err = store.AddDependencies(ctx, []stint.Dependency{{Predecessor: "copy1", Dependent: "done"}})
	if err != nil {
		return err
	}
	return store.ReturnTask(ctx, owned.ID, owned.Token, "", stint.StatusCompleted)
}

func TestWithTx_ARunningTaskGrowsItsNetworkAndReturnsInOneCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("start"), join("done", "start"), after("next", "done"))
	owned := ownOne(t, store)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := goOn(t.Context(), store.WithTx(tx), owned); err != nil {
			return err
		}
		wantState(t, store, stint.StateInProgress, "start") // to everybody else
		wantState(t, store.WithTx(tx), stint.StateReady, "copy1", "copy2")
		return nil
	})
	wantErr(t, "the transaction", err, nil)
	wantState(t, store, stint.StateBlocked, "done", "next")
	for _, task := range own(t, store, 2) {
		wantErr(t, "ReturnTask", store.ReturnTask(
			t.Context(), task.ID, task.Token, "", stint.StatusCompleted), nil)
	}
	wantState(t, store, stint.StateCompleted, "done")
	wantState(t, store, stint.StateReady, "next")
}

// Proves G73.
func TestWithTx_AnOwnerThatLostItsTokenCommitsNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("start"), join("done", "start"))
	late := ownOne(t, store)
	expireLeases(t, pool)
	owner := ownOne(t, store)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return goOn(t.Context(), store.WithTx(tx), late)
	})
	wantTasks(t, "the transaction", err, stint.ErrInvalidToken, "start")
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"copy1", "copy2"})
	wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, "copy1", "copy2")
	wantErr(t, "ReturnTask", store.ReturnTask(
		t.Context(), "start", owner.Token, "", stint.StatusCompleted), nil)
	wantState(t, store, stint.StateCompleted, "done")
}

// Proves G75.
func TestHoldOwnership_KeepsTheTaskUntilTheCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := own(t, store, 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := store.WithTx(tx).HoldOwnership(t.Context(), owned); err != nil {
			return err
		}
		expireLeases(t, pool)
		maintain(t, store)
		if others := own(t, store, 1); len(others) > 0 {
			t.Errorf("somebody else was given %q", others[0].ID)
		}
		return nil
	})
	wantErr(t, "the transaction", err, nil)
	if others := own(t, store, 1); len(others) != 1 {
		t.Error("the task stayed with an owner whose lease has expired")
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return store.WithTx(tx).HoldOwnership(t.Context(), owned)
	})
	wantTasks(t, "HoldOwnership of what another owns", err, stint.ErrInvalidToken, "a")
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return store.WithTx(tx).HoldOwnership(t.Context(), owned)
	})
	wantTasks(t, "HoldOwnership", err, stint.ErrInvalidToken, "a")
}

func TestHoldOwnership_RefusesToHoldOutsideATransaction(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"))
	err := store.HoldOwnership(t.Context(), own(t, store, 1))
	wantErr(t, "HoldOwnership", err, stint.ErrInvalidArgument)
}

// Whoever is late may ask too, as long as nobody else was given the task.
func TestInputs_AreForTheOwner(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	finish(t, store, "a", stint.StatusCompleted)
	insert(t, store, after("b", "a"))
	first := ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	inputs, err := store.Inputs(t.Context(), first)
	if err != nil || len(inputs) != 1 || inputs[0].ID != "a" || inputs[0].Action != "act" {
		t.Errorf("Inputs = %+v, %v", inputs, err)
	}
	expireLeases(t, pool)
	second := ownOne(t, store)
	_, err = store.Inputs(t.Context(), first)
	wantTasks(t, "Inputs", err, stint.ErrInvalidToken, "b")
	swapped := second
	swapped.ID = "a"
	_, err = store.Inputs(t.Context(), swapped)
	wantTasks(t, "Inputs of another task", err, stint.ErrInvalidToken, "a")
}

// Pages have as many inputs as fit, but at least one, and each input is on one page.
func TestInputsPage_EndsBeforeItIsTooLarge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	const few, many = 1000, 5000
	sizes := map[stint.TaskID]int{"a": few, "b": few, "c": few, "d": many, "e": 0, "f": few}
	for _, id := range []stint.TaskID{"a", "b", "c", "d", "e", "f"} {
		insert(t, store, stint.Task{ID: id, Action: "act", PostResult: true})
		returnWith(t, store, ownOne(t, store), stint.Return{
			Code: stint.StatusCompleted, Result: make([]byte, sizes[id]),
		})
	}
	insert(t, store, after("z", "a", "b", "c", "d", "e", "f"))
	owned := ownOne(t, store)
	var pages []string
	cursor := stint.Cursor("")
	for more := true; more; {
		inputs, next, err := store.Remote().InputsPage(t.Context(), owned, cursor, 2*few+500)
		wantErr(t, "InputsPage", err, nil)
		page := ""
		for _, input := range inputs {
			page += string(input.ID)
			if len(input.Result) != sizes[input.ID] {
				t.Errorf("%s has a result of %d bytes", input.ID, len(input.Result))
			}
		}
		pages = append(pages, page)
		cursor, more = next, next != ""
	}
	if got := fmt.Sprint(pages); got != "[ab c d ef]" {
		t.Errorf("the pages are %s, want [ab c d ef]", got)
	}
	_, _, err := store.Remote().InputsPage(t.Context(), owned, "z", few)
	wantErr(t, "InputsPage after no cursor", err, stint.ErrInvalidArgument)
}

// What somebody may ask for is not pruned, through joins neither.
// Proves R18.
func TestMaintain_SparesResultsThatAreStillToBeAskedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, keep := range map[string]time.Duration{"KeepNone": stint.KeepNone, "short": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t, stint.Options{
				Retention: stint.Retention{Completed: keep, Aborted: keep},
			})
			insert(t, store, after("a"), join("j", "a"), join("k", "j"), after("z", "k"))
			finish(t, store, "a", stint.StatusCompleted)
			maintain(t, store)
			z := ownOne(t, store)
			maintain(t, store)
			inputs, err := store.Inputs(t.Context(), z)
			if err != nil || len(inputs) != 1 || inputs[0].ID != "a" || z.Completed != 1 {
				t.Errorf("Inputs = %v, %v", inputs, err)
			}
			err = store.ReturnTask(t.Context(), "z", z.Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, nil)
			for range 4 { // one link of the chain after the other
				maintain(t, store)
			}
			_, err = store.GetTasks(t.Context(), []stint.TaskID{"a", "j", "k", "z"})
			wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, "a", "j", "k", "z")
		})
	}
}

// An aborted task may be retried, and then asks for the results of those that completed.
func TestMaintain_SparesResultsForTasksThatMayBeRetried(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: time.Minute, Aborted: time.Hour},
	})
	insert(t, store, after("a"), after("b"), after("z", "a", "b"), after("alone"))
	fail(t, store, "b")
	completeAll(t, store)
	age := func(by string) {
		exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - $1::interval", by)
		for range 2 { // what was spared for a task goes behind it
			maintain(t, store)
		}
	}
	age("10 minutes")
	_, err := store.GetTasks(t.Context(), []stint.TaskID{"a", "alone"})
	wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, "alone")
	retry(t, store, "b")
	finish(t, store, "b", stint.StatusCompleted)
	z := ownOne(t, store)
	if inputs, err := store.Inputs(t.Context(), z); err != nil || len(inputs) != 2 {
		t.Errorf("Inputs = %v, %v, want those of a and b", inputs, err)
	}
	err = store.ReturnTask(t.Context(), "z", z.Token, "", stint.StatusAborted)
	wantErr(t, "ReturnTask", err, nil)
	age("10 minutes")
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"a", "b", "z"})
	wantErr(t, "GetTasks", err, nil)
	age("1 hour")
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"a", "b", "z"})
	wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, "a", "b", "z")
}

// The seed's own story: under load, a request for the next export replaces the one that waits, and
// lets it wait for the end of the present one, while that end comes.
func TestReplaceTasks_ThenAddDependenciesDoesNotDeadlockWithTheEndOfThePredecessor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	for range testrun.Rounds(60) {
		insert(t, store, after("copy"), join("done", "copy"),
			stint.Task{ID: "next", Action: "next", After: []stint.TaskID{"done"}})
		owned := ownOne(t, store)
		returned := make(chan error, 1)
		go func() {
			returned <- store.ReturnTask(
				t.Context(), "copy", owned.Token, "", stint.StatusCompleted)
		}()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			inside := store.WithTx(tx)
			err := inside.ReplaceTasks(t.Context(), []stint.Task{{ID: "next", Action: "next"}})
			if err != nil {
				return err
			}
			err = inside.AddDependencies(t.Context(),
				[]stint.Dependency{{Predecessor: "done", Dependent: "next"}})
			if errors.Is(err, stint.ErrTaskFinished) {
				return nil
			}
			return err
		})
		wantErr(t, "the request", err, nil)
		wantErr(t, "ReturnTask", <-returned, nil)
		wantState(t, store, stint.StateReady, "next")
		err = errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"copy", "done", "next"}))
		wantErr(t, "DeleteTasks", err, nil)
	}
	wantNoDeadlocks(t, pool)
}

// The same with a predecessor that is in progress: its owner, who returns it meanwhile, waits from
// the beginning.
func TestReplaceTasks_LocksAnOwnedPredecessorFirst(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("copy"),
		stint.Task{ID: "next", Action: "next", After: []stint.TaskID{"copy"}})
	owned := ownOne(t, store)
	tx := begin(t, pool)
	inside := store.WithTx(tx)
	err := inside.ReplaceTasks(t.Context(), []stint.Task{{ID: "next", Action: "next"}})
	wantErr(t, "ReplaceTasks", err, nil)
	returning := start(func() (any, error) {
		return nil, store.ReturnTask(t.Context(), "copy", owned.Token, "", stint.StatusCompleted)
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "AddDependencies", addDependency(t, inside, "copy", "next"), nil)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err = ends(t, "ReturnTask", returning)
	wantErr(t, "ReturnTask", err, nil)
	wantState(t, store, stint.StateReady, "next")
	wantNoDeadlocks(t, pool)
}
