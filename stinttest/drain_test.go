package stinttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

func TestDrain_PerformsNetworksByPriorityAndAge(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store,
		stint.Task{ID: "old", Action: "act"},
		stint.Task{ID: "last", Action: "act", After: []stint.TaskID{"join"}},
		stint.Task{ID: "join", Action: stint.Spontaneous, After: []stint.TaskID{"old", "urgent"}},
		stint.Task{ID: "urgent", Action: "act", Priority: 1},
		stint.Task{ID: "other", Action: "other"},
		stint.Task{ID: "later", Action: "act", NotBefore: time.Now().Add(time.Hour)},
	)
	performed := stinttest.Drain(t, store, newWorker(t, store, done))
	wantPerformed(t, performed, "urgent 1 completed", "old 1 completed", "last 1 completed")
	wantState(t, store, stint.StateReady, "other")
	wantState(t, store, stint.StateScheduled, "later")
}

func TestDrain_PerformsWhatHandlersInsert(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "x", Action: "act"})
	w := newWorker(t, store, func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		if len(task.ID) == 3 {
			return worker.Result{}, nil
		}
		return worker.Result{}, store.InsertTasks(ctx, []stint.Task{
			{ID: task.ID + "x", Action: "act"},
		})
	})
	wantPerformed(t, stinttest.Drain(t, store, w),
		"x 1 completed", "xx 1 completed", "xxx 1 completed")
}

// The worker of a client performs what one of the store would.
func TestDrain_PerformsOverTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	address, _ := testservice.Start(t, store.Pool, store.Store, service.Options{})
	c := testservice.Client(t, address, client.Options{})
	insert(t, store,
		stint.Task{ID: "last", Action: "act", After: []stint.TaskID{"first"}},
		stint.Task{ID: "first", Action: "act", Priority: 1, Body: []byte("2")},
		stint.Task{ID: "fails", Action: "act"},
		stint.Task{ID: "late", Action: "act", Deadline: time.Now().Add(-time.Hour)})
	w, err := worker.New(c, worker.Options{}, worker.Handle("act",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			switch task.ID {
			case "fails":
				return failing(ctx, task)
			case "first":
				err := c.InsertTasks(ctx, []stint.Task{{ID: "new", Action: "act"}})
				return worker.Result{Bytes: task.Body}, err
			}
			inputs, err := task.Inputs(ctx)
			for _, input := range inputs {
				if string(input.Result) != "2" {
					t.Errorf("the input of %q is %q", task.ID, input.Result)
				}
			}
			return worker.Result{}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	performed := stinttest.Drain(t, store, w)
	wantPerformed(t, performed, "first 1 completed", "fails 1 retried", "new 1 completed",
		"last 1 completed")
	wantPerformed(t, stinttest.Drain(t, store, w, stinttest.WithScheduled()), "fails 2 retried",
		"fails 3 completed")
	wantState(t, store, stint.StateAborted, "late")
}

// What ends by itself is ended before a drain says that nothing is ready.
func TestDrain_SeesToDeadlines(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store,
		stint.Task{ID: "late", Action: "act", Deadline: time.Now().Add(-time.Hour)},
		stint.Task{
			ID: "next", Action: "act", After: []stint.TaskID{"late"}, OnAbort: stint.RunAnyway,
		})
	wantPerformed(t, stinttest.Drain(t, store, newWorker(t, store, done)), "next 1 completed")
}

func failing(_ context.Context, task *worker.Task) (worker.Result, error) {
	if task.Try < 3 {
		return worker.Result{}, fmt.Errorf("no luck at try %d", task.Try)
	}
	return worker.Result{}, nil
}

func TestDrain_PerformsATaskThatFailsOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, handler := range map[string]worker.Handler{
		"after a pause": failing,
		"at once": func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			if _, err := failing(ctx, task); err != nil {
				return worker.Result{}, worker.RetryAfter(0)
			}
			return worker.Result{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, stint.Options{})
			insert(t, store, stint.Task{ID: "fails", Action: "act"})
			w := newWorker(t, store, handler)
			for _, want := range []string{"fails 1 retried", "fails 2 retried"} {
				wantPerformed(t, stinttest.Drain(t, store, w), want)
				info := stinttest.RequireInserted(t, store, stint.Task{ID: "fails"})[0]
				if info.NotBefore.After(time.Now().Add(time.Hour)) {
					t.Errorf("the task is left until %v", info.NotBefore)
				}
				stinttest.MakeDue(t, store, "fails")
			}
			wantPerformed(t, stinttest.Drain(t, store, w), "fails 3 completed")
		})
	}
}

func TestDrain_WithScheduledGoesOnInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store,
		stint.Task{ID: "fails", Action: "act", MaxTries: 2},
		stint.Task{ID: "tomorrow", Action: "act", NotBefore: tomorrow},
		stint.Task{ID: "today", Action: "act", NotBefore: time.Now().Add(time.Hour)},
		stint.Task{ID: "join", Action: stint.Spontaneous, NotBefore: tomorrow.Add(time.Hour)},
		stint.Task{ID: "next", Action: "act", After: []stint.TaskID{"join"}},
		stint.Task{ID: "other", Action: "other", NotBefore: time.Now().Add(time.Hour)},
	)
	w := newWorker(t, store, func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if task.ID == "fails" {
			return worker.Result{}, errors.New("no luck")
		}
		return worker.Result{}, nil
	})
	performed := stinttest.Drain(t, store, w, stinttest.WithScheduled())
	wantPerformed(t, performed, "fails 1 retried", "fails 2 aborted", "today 1 completed",
		"tomorrow 1 completed", "next 1 completed")
	wantState(t, store, stint.StateAborted, "fails")
}

// The time of a task may come by itself at any instant, so also between two looks.
func TestDrain_WithScheduledMissesNoneThatBecomesDueMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tries = 200
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "fails", Action: "act", MaxTries: tries})
	w := newWorker(t, store, func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, worker.RetryAfter(rand.N(20 * time.Millisecond))
	})
	performed := stinttest.Drain(t, store, w, stinttest.WithScheduled())
	if len(performed) != tries {
		t.Errorf("the task was performed %d times, want %d", len(performed), tries)
	}
}

func TestDrain_FailsWhenThereIsNoEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "fine", Action: "act"}, stint.Task{ID: "fails", Action: "act"})
	w := newWorker(t, store, func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if task.ID == "fails" {
			return worker.Result{}, errors.New("no luck")
		}
		return worker.Result{}, nil
	})
	wantFailure(t, `Drain: more than 10 performances, 11 of them with action "act", 10 of these `+
		`of task "fails", which was last retried (no luck); see WithLimit`, func(tb testing.TB) {
		tb.Helper()
		stinttest.Drain(tb, store, w, stinttest.WithScheduled(), stinttest.WithLimit(10))
	})
}

// A task that inserts its successor is performed once, and so is that, and so on.
func TestDrain_FailsWhenTasksRenewThemselves(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "night/", Action: "act"})
	w := newWorker(t, store, func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{}, store.InsertTasks(ctx,
			[]stint.Task{{ID: task.ID + "1", Action: "act"}})
	})
	wantFailure(t, `Drain: more than 3 performances, 4 of them with action "act", 1 of these of `+
		`task "night/111", which was last completed; see WithLimit`, func(tb testing.TB) {
		tb.Helper()
		stinttest.Drain(tb, store, w, stinttest.WithLimit(3))
	})
}

// A task that is put off comes back in no plain Drain, however short its pause.
func TestDrain_PerformsASnoozedTaskOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "1", Action: "act"})
	w := newWorker(t, store, func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, worker.Snooze(0)
	})
	wantPerformed(t, stinttest.Drain(t, store, w), "1 1 snoozed")
}

// A handler may fail the test, and what was set aside is put back all the same.
func TestDrain_LetsHandlersFailTheTest(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	insert(t, store, stint.Task{ID: "1", Action: "act"}, stint.Task{ID: "2", Action: "act"})
	wantFailure(t, "task 2 is wrong", func(tb testing.TB) {
		tb.Helper()
		w := newWorker(t, store, func(_ context.Context, task *worker.Task) (worker.Result, error) {
			if task.ID == "2" {
				tb.Fatalf("task %s is wrong", task.ID)
			}
			return worker.Result{}, errors.New("no luck")
		})
		stinttest.Drain(tb, store, w)
	})
	if got := stinttest.RequireInserted(t, store, stint.Task{ID: "1"})[0].NotBefore; got.After(
		time.Now().Add(time.Hour)) {
		t.Errorf("a task is left until %v", got)
	}
}
