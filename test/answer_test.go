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

// external is a task that is performed outside, and waits for others.
func external(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: stint.External, After: predecessors}
}

func answered(ids ...stint.TaskID) []stint.Answer {
	answers := make([]stint.Answer, len(ids))
	for i, id := range ids {
		answers[i] = stint.Answer{ID: id, Code: stint.StatusCompleted}
	}
	return answers
}

// answer answers tasks, and fails unless each answer takes effect.
func answer(t *testing.T, store *stint.Store, answers ...stint.Answer) {
	t.Helper()
	verdicts, err := store.AnswerTasks(t.Context(), "people", answers)
	if err = errors.Join(append(verdicts, err)...); err != nil {
		t.Fatalf("AnswerTasks = %v", err)
	}
}

// Dependents of external tasks learn how these were answered, as if they had been performed here.
// Proves R22.
func TestAnswerTasks_EndsTasksAsAReturnDoes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	noted := external("noted")
	noted.PostResult = true
	insert(t, store,
		noted, external("refused"), external("plain"),
		after("next", "noted", "plain"), after("lost", "refused"), anyway("any", "refused"))
	answer(t, store,
		stint.Answer{
			ID: "noted", Code: stint.StatusCompleted, Status: "by ann", Result: []byte("yes"),
		},
		stint.Answer{ID: "refused", Code: stint.StatusAborted, Status: "no"},
		stint.Answer{ID: "plain", Code: stint.StatusCompleted})
	got := info(t, store, "noted")
	if got.State != stint.StateCompleted || string(got.Result) != "yes" ||
		got.Status != "by ann" || got.Actor != "people" || got.Tries != 0 {
		t.Errorf("noted is %+v", got)
	}
	if got := info(t, store, "lost"); got.AbortCause != stint.CauseDependency {
		t.Errorf("lost is %s, aborted for %q", got.State, got.AbortCause)
	}
	waited, err := store.WaitForTask(t.Context(), "noted")
	if err != nil || string(waited.Result) != "yes" {
		t.Errorf("WaitForTask = %q, %v", waited.Result, err)
	}
	owned := own(t, store, 2)
	if want := []stint.TaskID{"any", "next"}; !slices.Equal(slices.Sorted(
		slices.Values(idsOf(owned))), want) {
		t.Fatalf("OwnTasks gave %q, want %q", idsOf(owned), want)
	}
	for _, task := range owned {
		if task.ID == "any" && task.Aborted != 1 || task.ID == "next" && task.Completed != 2 {
			t.Errorf("%s: %d completed, %d aborted", task.ID, task.Completed, task.Aborted)
		}
	}
}

// An answer that cannot take effect says why, and leaves the others alone.
func TestAnswerTasks_GivesAVerdictOnEach(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	later := external("later")
	later.NotBefore = time.Now().Add(time.Hour)
	insert(t, store, external("a"), external("b", "a"), later, after("act"), external("ended"),
		external("aborted"))
	answer(t, store, answered("ended")...)
	wantErr(t, "AbortTasks",
		errOf(store.AbortTasks(t.Context(), []stint.TaskID{"aborted"}, "")), nil)
	long := stint.Answer{
		ID: "a", Code: stint.StatusCompleted, Result: make([]byte, 64<<20+1),
	}
	verdicts, err := store.AnswerTasks(t.Context(), "people", append([]stint.Answer{
		{ID: "a", Code: stint.StatusPending}, {ID: "", Code: stint.StatusCompleted}, long,
	}, answered("b", "later", "act", "ended", "aborted", "none", "a", "a")...))
	wantErr(t, "AnswerTasks", err, nil)
	for i, want := range []error{
		stint.ErrInvalidArgument, stint.ErrInvalidArgument, stint.ErrTooLarge,
		stint.ErrTaskBlocked, stint.ErrTaskBlocked, stint.ErrInvalidArgument,
		stint.ErrTaskFinished, stint.ErrTaskFinished, stint.ErrTaskNotFound, nil,
		stint.ErrInvalidArgument,
	} {
		wantErr(t, fmt.Sprintf("answer %d", i), verdicts[i], want)
	}
	wantState(t, store, stint.StateCompleted, "a")
	wantState(t, store, stint.StateReady, "b", "act")
	wantErr(t, "AnswerTasks by nobody",
		errOf(store.AnswerTasks(t.Context(), "", answered("b"))), stint.ErrInvalidArgument)
	wantErr(t, "AnswerTasks of none", errOf(store.AnswerTasks(t.Context(), "x", nil)), nil)
}

// Of many answers to a task one takes effect, and tasks of one span are answered apart.
// Proves G197.
func TestAnswerTasks_OneAnswerTakesEffect(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	tasks := numbered("t", 60)
	for i := range tasks {
		tasks[i].Action = stint.External
	}
	insert(t, store, append(tasks, after("end", named(tasks)...))...)
	taken := make([][]error, 4)
	call := func(i int) func() error {
		by, code := []*stint.Store{store, other}[i%2], stint.StatusCompleted
		if i >= 2 {
			code = stint.StatusAborted
		}
		return func() (err error) {
			answers := answered(named(tasks)...)
			for n := range answers {
				answers[n].Code = code
				answers[n].Status = []string{"", "said"}[i%2]
			}
			if i%2 > 0 {
				slices.Reverse(answers)
			}
			taken[i], err = by.AnswerTasks(t.Context(), "people", answers)
			if i%2 > 0 {
				slices.Reverse(taken[i])
			}
			return err
		}
	}
	for _, err := range atOnce(call(0), call(1), call(2), call(3)) {
		wantErr(t, "AnswerTasks", err, nil)
	}
	for n, task := range tasks {
		effects := 0
		for i := range taken {
			if taken[i][n] == nil {
				effects++
				continue
			}
			wantErr(t, "a later answer", taken[i][n], stint.ErrTaskFinished)
		}
		if effects != 1 {
			t.Errorf("%d answers to %s took effect, want 1", effects, task.ID)
		}
	}
	if got := info(t, store, "end").State; got == stint.StateBlocked {
		t.Errorf("the dependent is %s", got)
	}
}

// In the caller's transaction an answer counts if the transaction commits.
func TestAnswerTasks_InATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, external("a"), external("b"), after("next", "a"))
	undone := begin(t, pool)
	answer(t, store.WithTx(undone), answered("a", "b")...)
	wantErr(t, "Rollback", undone.Rollback(t.Context()), nil)
	wantState(t, store, stint.StateReady, "a", "b")
	tx := begin(t, pool)
	answer(t, store.WithTx(tx), answered("a")...)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantState(t, store, stint.StateCompleted, "a")
	wantState(t, store, stint.StateReady, "b", "next")
}

// Nobody is given an external task, and it waits no longer than its deadline.
func TestExternal_WaitsForItsAnswerOrItsDeadline(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	task := external("a")
	task.Deadline = time.Now().Add(time.Hour)
	insert(t, store, task, after("next", "a"))
	for name, err := range map[string]error{
		"OwnTasks": errOf(store.OwnTasks(
			t.Context(), "actor", 1, []string{stint.External}, time.Hour)),
		"RegisterActor": store.RegisterActor(t.Context(), "actor", []string{stint.External}),
	} {
		wantErr(t, name, err, stint.ErrInvalidArgument)
	}
	passDeadlines(t, pool)
	wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
	if got := info(t, store, "a"); got.AbortCause != stint.CauseExpired {
		t.Errorf("a is %s, aborted for %q, want %q", got.State, got.AbortCause, stint.CauseExpired)
	}
	wantState(t, store, stint.StateAborted, "next")
	verdicts, err := store.AnswerTasks(t.Context(), "people", answered("a"))
	wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), stint.ErrTaskFinished)
}

// With KeepNone nothing stays of an answered task that nobody waits for.
func TestAnswerTasks_KeepsNoneIfNoneAreKept(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{Retention: stint.Retention{
		Completed: stint.KeepNone, Aborted: stint.KeepNone,
	}})
	insert(t, store, external("a"), external("b"))
	answer(t, store, answered("a", "b")...)
	verdicts, err := store.AnswerTasks(t.Context(), "people", answered("a"))
	wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), stint.ErrTaskNotFound)
}
