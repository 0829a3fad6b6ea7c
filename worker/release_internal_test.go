package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G290.
func TestRelease_OfATaskThatSomebodyHoldsKeepsNoOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	tasks := []stint.Task{{ID: "a", Action: "a"}, {ID: "b", Action: "a"}, {ID: "c", Action: "a"}}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	done := func(context.Context, *Task) (Result, error) { return Result{}, nil }
	w, err := New(store, Options{}, Handle("a", done))
	if err != nil {
		t.Fatal(err)
	}
	var owned []stint.OwnedTask
	for range tasks { // each in a row of its own
		one, err := store.OwnTasks(t.Context(), w.options.Actor, 1, []string{"a"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		owned = append(owned, one...)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.WithTx(tx).HoldOwnership(t.Context(), owned[1:2]); err != nil {
		t.Fatal(err)
	}
	e := newExecution(w)
	e.release(owned)
	states := func() (states []stint.State) {
		infos, err := store.GetTasks(t.Context(), []stint.TaskID{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			states = append(states, info.State)
			if info.State == stint.StateReady && info.Tries != 0 {
				t.Errorf("%+v has lost a try", info)
			}
		}
		return states
	}
	for {
		if got := states(); got[0] == stint.StateReady && got[2] == stint.StateReady {
			break
		}
		if !sleep(t.Context(), 10*time.Millisecond) {
			t.Fatal("two tasks wait for the third")
		}
	}
	if got := states(); got[1] != stint.StateInProgress {
		t.Errorf("the task that is held is %s", got[1])
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.performing.Wait()
	if got := states(); got[1] != stint.StateReady || len(e.unbegun.tasks) > 0 {
		t.Errorf("the task that was held is %s", got[1])
	}
}
