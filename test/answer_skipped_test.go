package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
)

// An answer may say that an external task is skipped, once, with what that means for others.
// Proves G271, R23.
func TestAnswerTasks_SkipTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	external := func(id stint.TaskID) stint.Task {
		return stint.Task{ID: id, Action: stint.External}
	}
	key := stint.NewAnswerKey()
	locked := external("locked")
	locked.AnswerKey = key
	late := external("late")
	late.After = []stint.TaskID{"locked"}
	insert(t, store, external("a"), external("b"), external("c"), locked, late,
		after("next", "a"), anyway("any", "a"), when("mend", ended("a", isSkipped)),
		when("use", ended("a")), whenAny("first", ended("a"), ended("b")), after("act"))
	skip := func(id stint.TaskID) stint.Answer {
		return stint.Answer{ID: id, Code: stint.StatusSkipped, Status: "no need"}
	}
	wrong := skip("c")
	wrong.Result = []byte("x")
	verdicts, err := store.AnswerTasks(t.Context(), "ann", []stint.Answer{
		skip("a"),
		{ID: "b", Code: stint.StatusAborted},
		wrong, skip("locked"), skip("late"), skip("none"), skip("act"),
	})
	wantErr(t, "AnswerTasks", err, nil)
	for i, want := range []error{
		nil, nil, stint.ErrInvalidArgument, stint.ErrInvalidAnswerKey, stint.ErrTaskBlocked,
		stint.ErrTaskNotFound, stint.ErrInvalidArgument,
	} {
		wantErr(t, "a verdict", verdicts[i], want)
	}
	states := statesOf(t, store)
	for id, want := range map[stint.TaskID]stint.State{
		"a": isSkipped, "b": isAborted, "c": stint.StateReady, "next": isSkipped,
		"any": stint.StateReady, "mend": stint.StateReady, "use": isSkipped, "first": isAborted,
		"locked": stint.StateReady, "act": stint.StateReady,
	} {
		if states[id] != want {
			t.Errorf("%q is %s, want %s", id, states[id], want)
		}
	}
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"a"})
	if err != nil || infos[0].Status != "no need" {
		t.Errorf("GetTasks = %+v, %v", infos, err)
	}
	verdicts, err = store.AnswerTasks(t.Context(), "ann", []stint.Answer{skip("a"), skip("b")})
	wantErr(t, "AnswerTasks", err, nil)
	for _, verdict := range verdicts {
		wantErr(t, "a second answer", verdict, stint.ErrTaskFinished)
	}
	open := skip("locked")
	open.Key = key
	verdicts, err = store.AnswerTasks(t.Context(), "ann", []stint.Answer{open})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "with the key", verdicts[0], nil)
}

// What is skipped by an answer in a transaction that is rolled back is not.
func TestAnswerTasks_SkipTasksInATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: stint.External}, after("b", "a"))
	tx := begin(t, pool)
	verdicts, err := store.WithTx(tx).AnswerTasks(t.Context(), "ann", []stint.Answer{
		{ID: "a", Code: stint.StatusSkipped},
	})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "the verdict", verdicts[0], nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	if states := statesOf(t, store); states["a"] != stint.StateReady ||
		states["b"] != stint.StateBlocked {
		t.Errorf("the states are %v", states)
	}
}
