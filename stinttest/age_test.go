package stinttest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
)

func TestExpireLeases_HandsOnTheTasksNamedOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	var tasks []stint.Task
	for i := range 40 {
		tasks = append(tasks, stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "act"})
	}
	insert(t, store, tasks...)
	owned := own(t, store, 40)
	if err := store.SetStatus(t.Context(), owned[7], "half", 0.5); err != nil {
		t.Fatal(err)
	}
	// A part of the lease is cut off before.
	extended, err := store.ExtendTasksOwnership(t.Context(), "actor", owned[30:], 2*time.Hour)
	if err != nil || len(extended) != 10 {
		t.Fatalf("ExtendTasksOwnership = %v, %v", extended, err)
	}
	stinttest.ExpireLeases(t, store, "0", "7", "20", "31", "39")
	wantState(t, store, stint.StateReady, "0", "7", "20", "31", "39")
	page, err := store.ListTasks(t.Context(), stint.Filter{
		States: []stint.State{stint.StateInProgress},
	})
	if err != nil || len(page.Tasks) != 35 {
		t.Errorf("%d tasks are in progress, %v, want 35", len(page.Tasks), err)
	}
	for i, owner := range owned {
		err := store.ReturnTask(t.Context(), owner.ID, owner.Token, "", stint.StatusCompleted)
		if err != nil { // also of late owners: nobody else was given the task
			t.Errorf("ReturnTask(%d) = %v", i, err)
		}
	}
}

func TestExpireLeases_VoidsTheTokenOnceAnotherOwns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "task", Action: "act"})
	late := own(t, store, 1)[0]
	stinttest.ExpireLeases(t, store, "task")
	own(t, store, 1)
	err := store.ReturnTask(t.Context(), "task", late.Token, "", stint.StatusCompleted)
	if !errors.Is(err, stint.ErrInvalidToken) {
		t.Errorf("ReturnTask = %v, want %v", err, stint.ErrInvalidToken)
	}
}

func TestExpireLeases_AbortsWhatHasNoTriesLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "task", Action: "act", MaxTries: 1})
	own(t, store, 1)
	stinttest.ExpireLeases(t, store, "task")
	wantState(t, store, stint.StateAborted, "task")
}

func TestExpireLeases_EndsLeasesWithoutADeadline(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "1", Action: "act"}, stint.Task{ID: "2", Action: "act"})
	_, err := store.OwnTasks(t.Context(), "actor", 2, []string{"act"}, stint.NoExpiry)
	if err != nil {
		t.Fatal(err)
	}
	stinttest.ExpireLeases(t, store, "1")
	stinttest.ExpireLeases(t, store, "2")
	wantState(t, store, stint.StateReady, "1", "2")
}

func TestMakeDue_ReadiesWhatIsScheduled(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	later := time.Now().Add(time.Hour)
	insert(t, store, stint.Task{ID: "retried", Action: "act"})
	owner := own(t, store, 1)[0]
	_, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: owner.ID, Token: owner.Token, Code: stint.StatusPending, RetryAfter: time.Hour,
	}})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, store,
		stint.Task{ID: "later", Action: "act", NotBefore: later},
		stint.Task{ID: "other", Action: "act", NotBefore: later},
		stint.Task{ID: "join", Action: stint.Spontaneous, NotBefore: later},
		stint.Task{ID: "first", Action: "act"},
		stint.Task{
			ID: "blocked", Action: "act", NotBefore: later, After: []stint.TaskID{"first"},
		},
	)
	stinttest.MakeDue(t, store, "retried", "later", "join", "blocked")
	wantState(t, store, stint.StateReady, "retried", "later", "first")
	wantState(t, store, stint.StateCompleted, "join")
	wantState(t, store, stint.StateScheduled, "other")
	wantState(t, store, stint.StateBlocked, "blocked")
	stinttest.Drain(t, store, newWorker(t, store, done))
	wantState(t, store, stint.StateCompleted, "blocked")
}

func TestPassDeadlines_AbortsInWhateverState(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "owned", Action: "act", Deadline: tomorrow})
	own(t, store, 1)
	insert(t, store,
		stint.Task{ID: "ready", Action: "act", Deadline: tomorrow},
		stint.Task{ID: "scheduled", Action: "act", Deadline: tomorrow, NotBefore: tomorrow},
		stint.Task{ID: "first", Action: "act", Deadline: tomorrow},
		stint.Task{
			ID: "blocked", Action: "act", Deadline: tomorrow, After: []stint.TaskID{"first"},
		},
	)
	stinttest.PassDeadlines(t, store, "owned", "ready", "scheduled", "blocked")
	wantState(t, store, stint.StateAborted, "owned", "ready", "scheduled", "blocked")
	wantState(t, store, stint.StateReady, "first")
	info := stinttest.RequireInserted(t, store, stint.Task{ID: "owned"})[0]
	if info.AbortCause != stint.CauseExpired {
		t.Errorf("the cause is %s, want %s", info.AbortCause, stint.CauseExpired)
	}
}

func TestAgeing_SaysInWhichStateTasksAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "owned", Action: "act"})
	own(t, store, 1)
	insert(t, store, stint.Task{ID: "ready", Action: "act"})
	wantFailure(t, `ExpireLeases: task "ready" is ready, not in-progress
	there is no task "none"`, func(tb testing.TB) {
		tb.Helper()
		stinttest.ExpireLeases(tb, store, "ready", "none")
	})
	wantFailure(t, `MakeDue: task "owned" is in-progress, of "actor", not scheduled
	task "ready" is ready, not scheduled`, func(tb testing.TB) {
		tb.Helper()
		stinttest.MakeDue(tb, store, "owned", "ready")
	})
	wantFailure(t, `PassDeadlines: task "ready" is ready, and no Deadline is ahead`,
		func(tb testing.TB) {
			tb.Helper()
			stinttest.PassDeadlines(tb, store, "ready")
		})
}
