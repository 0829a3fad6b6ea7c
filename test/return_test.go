package stint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G46.
func TestReturnTask_EndsTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for code, want := range map[stint.StatusCode]stint.TaskInfo{
		stint.StatusCompleted: {State: stint.StateCompleted},
		stint.StatusAborted:   {State: stint.StateAborted, AbortCause: stint.CauseReturned},
	} {
		store := newStore(t)
		insert(t, store, stint.Task{ID: "a", Action: "act"})
		task := ownOne(t, store)
		if err := store.ReturnTask(t.Context(), "a", task.Token, "so", code); err != nil {
			t.Fatal(err)
		}
		got := info(t, store, "a")
		if got.StatusCode != code || got.State != want.State || got.AbortCause != want.AbortCause ||
			got.Status != "so" || got.Tries != 1 || got.Actor != "actor" ||
			got.FinishedAt.IsZero() {
			t.Errorf("GetTasks = %+v", got)
		}
		if owned := own(t, store, 1); len(owned) != 0 {
			t.Errorf("a task that is %s was fetched again", code)
		}
	}
}

func TestReturnTask_AsPendingPutsTheTaskBehindTheOthers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 2)...)
	task := ownOne(t, store)
	err := store.ReturnTask(t.Context(), task.ID, task.Token, "why", stint.StatusPending)
	if err != nil {
		t.Fatal(err)
	}
	if got := info(t, store, task.ID); got.State != stint.StateReady || got.Status != "why" {
		t.Errorf("GetTasks = %+v", got)
	}
	if got := own(t, store, 2); got[0].ID != "t000001" || got[1].Try != 2 {
		t.Errorf("OwnTasks = %+v", got)
	}
}

// With its tries exhausted the task is aborted.
// Proves R11.
func TestReturnTask_AsPendingAbortsAfterTheLastTry(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 2})
	for range 2 {
		task := ownOne(t, store)
		for range 2 {
			err := store.ReturnTask(t.Context(), "a", task.Token, "failed", stint.StatusPending)
			if err != nil {
				wantErr(t, "ReturnTask repeated", err, stint.ErrAlreadyReturned)
			}
		}
	}
	got := info(t, store, "a")
	if got.State != stint.StateAborted || got.AbortCause != stint.CauseTries || got.Tries != 2 ||
		got.Status != "failed" {
		t.Errorf("GetTasks = %+v", got)
	}
}

// The same return repeated succeeds in effect, another one does not.
// Proves R11.
func TestReturnTask_RepeatedTellsThatItWasDone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	codes := []stint.StatusCode{stint.StatusCompleted, stint.StatusAborted, stint.StatusPending}
	for _, first := range codes {
		store := newStore(t)
		insert(t, store, stint.Task{ID: "a", Action: "act"})
		task := ownOne(t, store)
		if err := store.ReturnTask(t.Context(), "a", task.Token, "", first); err != nil {
			t.Fatal(err)
		}
		for _, second := range codes {
			err := store.ReturnTask(t.Context(), "a", task.Token, "", second)
			wantTasks(t, "ReturnTask", err, stint.ErrInvalidToken, "a")
			if got := errors.Is(err, stint.ErrAlreadyReturned); got != (first == second) {
				t.Errorf("%s after %s: %v", second, first, err)
			}
		}
	}
}

// Proves R8.
func TestReturnTask_RefusesTokensOfOtherTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, numbered("t", 3)...)
	owned := own(t, store, 2)
	another := ownOne(t, store)
	for _, token := range []stint.Token{owned[1].Token, another.Token, {}, {0xff}} {
		err := store.ReturnTask(t.Context(), owned[0].ID, token, "", stint.StatusCompleted)
		wantTasks(t, "ReturnTask", err, stint.ErrInvalidToken, owned[0].ID)
		if errors.Is(err, stint.ErrTaskNotFound) {
			t.Errorf("ReturnTask = %v, but the task exists", err)
		}
	}
	err := store.ReturnTask(t.Context(), "nobody", owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask of an unknown task", err, stint.ErrInvalidToken)
	wantErr(t, "ReturnTask of an unknown task", err, stint.ErrTaskNotFound)
	if got := info(t, store, owned[0].ID).State; got != stint.StateInProgress {
		t.Errorf("after refused returns the task is %s", got)
	}
}

// Proves R11.
func TestReturnTasks_AnswersEachReturn(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 6)...)
	owned := own(t, store, 6)
	returned := func(i int, code stint.StatusCode) stint.Return {
		return stint.Return{ID: owned[i].ID, Token: owned[i].Token, Code: code}
	}
	wrong := returned(3, stint.StatusCompleted)
	wrong.Token = stint.Token{1}
	later := returned(4, stint.StatusPending)
	later.RetryAfter = time.Hour
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		returned(5, stint.StatusCompleted),
		returned(0, stint.StatusCompleted),
		returned(0, stint.StatusCompleted),
		returned(1, "unheard of"),
		wrong,
		returned(0, stint.StatusAborted),
		later,
		returned(2, stint.StatusAborted),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{
		nil, nil, stint.ErrAlreadyReturned, stint.ErrInvalidArgument, stint.ErrInvalidToken,
		stint.ErrInvalidToken, nil, nil,
	} {
		if !errors.Is(verdicts[i], want) || want == nil && verdicts[i] != nil {
			t.Errorf("verdict %d = %v, want %v", i, verdicts[i], want)
		}
	}
	for i, want := range []stint.State{
		stint.StateCompleted, stint.StateInProgress, stint.StateAborted, stint.StateInProgress,
		stint.StateScheduled, stint.StateCompleted,
	} {
		if got := info(t, store, owned[i].ID).State; got != want {
			t.Errorf("task %d is %s, want %s", i, got, want)
		}
	}
}

// A token that comes twice, once forged, must not vouch for the other.
func TestReturnTasks_JudgesEachTokenOfOneTask(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	first := ownOne(t, store)
	expireLeases(t, pool)
	second := ownOne(t, store)
	kept, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{first, second}, time.Hour)
	if err != nil || kept[0] || !kept[1] {
		t.Errorf("ExtendTasksOwnership = %v, %v, want false and true", kept, err)
	}
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		{ID: "a", Token: first.Token, Code: stint.StatusCompleted},
		{ID: "nobody", Token: second.Token, Code: stint.StatusCompleted},
		{ID: "a", Token: second.Token, Code: stint.StatusCompleted},
		{ID: "a", Token: first.Token, Code: stint.StatusCompleted},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{
		stint.ErrInvalidToken, stint.ErrTaskNotFound, nil, stint.ErrInvalidToken,
	} {
		if !errors.Is(verdicts[i], want) || errors.Is(verdicts[i], stint.ErrAlreadyReturned) {
			t.Errorf("verdict %d = %v, want %v", i, verdicts[i], want)
		}
	}
}

func TestReturnTasks_ReleaseRefundsTheTry(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1})
	for _, wait := range []time.Duration{0, time.Hour, 0} {
		task := ownOne(t, store)
		if task.Try != 1 {
			t.Errorf("Try = %d, want 1", task.Try)
		}
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
			ID: "a", Token: task.Token, Code: stint.StatusPending, Release: true, RetryAfter: wait,
		}})
		if err != nil || verdicts[0] != nil {
			t.Fatal(verdicts, err)
		}
		makeDue(t, pool)
	}
}

func TestReturnTasks_RetryAfterHoldsTheTaskBack(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	back := stint.Return{
		ID: "a", Token: task.Token, Code: stint.StatusPending,
		Status: "busy", RetryAfter: time.Hour,
	}
	for _, want := range []error{nil, stint.ErrAlreadyReturned} {
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{back})
		if err != nil || !errors.Is(verdicts[0], want) {
			t.Fatal(verdicts, err)
		}
	}
	got := info(t, store, "a")
	if got.State != stint.StateScheduled || got.Status != "busy" || got.Tries != 1 ||
		time.Until(got.NotBefore) < 50*time.Minute {
		t.Errorf("GetTasks = %+v", got)
	}
	if owned := own(t, store, 1); len(owned) != 0 {
		t.Error("the task was fetched before its time")
	}
	makeDue(t, pool)
	maintain(t, store)
	if task := ownOne(t, store); task.Try != 2 {
		t.Errorf("Try = %d, want 2", task.Try)
	}
}

func TestReturnTasks_KeepsResults(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	result := []byte("\x00\xffresult")
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		{ID: "a", Token: task.Token, Code: stint.StatusCompleted, Result: result},
	})
	if err != nil || verdicts[0] != nil {
		t.Fatal(verdicts, err)
	}
	if got := info(t, store, "a").Result; string(got) != string(result) {
		t.Errorf("Result = %q, want %q", got, result)
	}
}

// Returning is never impossible because of what the status text holds.
// Proves R11.
func TestReturnTask_AcceptsAnyStatusText(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for text, want := range map[string]string{
		"nul\x00byte":                             "nul\ufffdbyte",
		"\xff\xfe":                                "\ufffd",
		strings.Repeat("x", 1<<20):                strings.Repeat("x", 64<<10),
		strings.Repeat("\u20ac", 1<<20):           strings.Repeat("\u20ac", (64<<10)/3),
		strings.Repeat("\x00", 64<<10):            strings.Repeat("\ufffd", (64<<10)/3),
		"\U0001f41f":                              "\U0001f41f",
		"'); DROP TABLE stint.tasks; -- \\ %s $1": "'); DROP TABLE stint.tasks; -- \\ %s $1",
	} {
		insert(t, store, stint.Task{ID: "a", Action: "act"})
		task := ownOne(t, store)
		err := store.ReturnTask(t.Context(), "a", task.Token, text, stint.StatusAborted)
		if err != nil {
			t.Fatalf("ReturnTask with status %.20q = %v", text, err)
		}
		if got := info(t, store, "a").Status; got != want {
			t.Errorf("status %.20q came back as %.20q of %d bytes", text, got, len(got))
		}
		if err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a"})); err != nil {
			t.Fatal(err)
		}
	}
}

// Proves R18.
func TestReturnTask_WithKeepNoneLeavesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepForever},
	})
	insert(t, store, numbered("t", 2)...)
	insert(t, store, stint.Task{ID: "waited for", Action: "act", PostResult: true})
	for i, task := range own(t, store, 3) {
		code := []stint.StatusCode{
			stint.StatusCompleted, stint.StatusAborted, stint.StatusCompleted,
		}[i]
		if err := store.ReturnTask(t.Context(), task.ID, task.Token, "", code); err != nil {
			t.Fatal(err)
		}
		err := store.ReturnTask(t.Context(), task.ID, task.Token, "", code)
		wantErr(t, "ReturnTask repeated", err, stint.ErrInvalidToken)
		wantErr(t, "ReturnTask repeated", err,
			[]error{stint.ErrTaskNotFound, stint.ErrAlreadyReturned, stint.ErrAlreadyReturned}[i])
	}
	maintain(t, store)
	list, err := listTasks(t.Context(), store, stint.Filter{})
	if err != nil || len(list) != 2 || list[0].ID != "t000001" || list[1].ID != "waited for" {
		t.Errorf("ListTasks = %v, %v", list, err)
	}
}

// With KeepNone a result stays as long as a dependent may ask for it.
// Proves R18.
func TestReturnTask_WithKeepNoneKeepsWhatADependentMayAskFor(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepForever},
	})
	insert(t, store, after("a"), after("z", "a"))
	returnWith(t, store, ownOne(t, store),
		stint.Return{Code: stint.StatusCompleted, Result: []byte("result")})
	inputs, err := store.Inputs(t.Context(), ownOne(t, store))
	if err != nil || len(inputs) != 1 || string(inputs[0].Result) != "result" {
		t.Errorf("Inputs = %v, %v, want the result of a", inputs, err)
	}
}

func TestReturnTasks_ReleasedKeepsTheStatusOfTheTryBefore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, later := range []time.Duration{0, time.Hour} {
		store := newStore(t)
		insert(t, store, stint.Task{ID: "a", Action: "act"})
		first := ownOne(t, store)
		err := store.ReturnTask(t.Context(), "a", first.Token, "disk full", stint.StatusPending)
		wantErr(t, "ReturnTask", err, nil)
		second := ownOne(t, store)
		returnWith(t, store, second, stint.Return{
			Code: stint.StatusPending, Release: true, RetryAfter: later,
		})
		if got := info(t, store, "a"); got.Status != "disk full" || got.Tries != 1 {
			t.Errorf("status %q after %d tries, want the first one's", got.Status, got.Tries)
		}
	}
}
