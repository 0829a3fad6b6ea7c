package stint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// If one call brings about both an abort and a skip of a task, the abort wins, at whatever distance
// either comes from.
// Proves R12, R23.
func TestConditions_AnAbortWinsOverASkip(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	external := func(id stint.TaskID) stint.Task {
		return stint.Task{ID: id, Action: stint.External}
	}
	store := newStore(t)
	both := func(id, falls, skips stint.TaskID) stint.Task {
		task := when(id, answers(skips, "yes"))
		task.After = []stint.TaskID{falls, "open"}
		return task
	}
	wanted := map[stint.TaskID]stint.State{}
	for i := range 2 {
		id := func(of string) stint.TaskID { return stint.TaskID(fmt.Sprint(of, i)) }
		a, b := id("a"), id("b")
		tasks := []stint.Task{
			external(a), external(b), both(id("next"), a, b),
			// One way is longer than the other.
			after(id("a1"), a), after(id("a2"), id("a1")), both(id("far abort"), id("a2"), b),
			when(id("b1"), answers(b, "yes")), after(id("b2"), id("b1")),
			after(id("far skip"), id("b2"), a, "open"),
			// None of several ends as it must, which shows later.
			whenAny(id("any"), ended(a), answers(b, "yes")), both(id("after any"), id("any"), b),
			after(id("behind any"), id("any")), both(id("after that"), id("behind any"), b),
			whenAny(id("late any"), ended(a), ended(id("b2"))),
			both(id("after late"), id("late any"), b),
			// The skip of one that waits for others, too, decides of several, and these of another.
			func() stint.Task {
				task := when(id("early"), answers(b, "yes"))
				task.After = []stint.TaskID{"open"}
				return task
			}(),
			whenAny(id("by early"), ended(a), ended(id("early"))),
			both(id("after early"), id("by early"), b),
			whenAny(id("nested"), ended(a), ended(id("after early"), isSkipped)),
			both(id("after nested"), id("nested"), b),
		}
		if i == 0 {
			tasks = append(tasks, external("open"))
		}
		insert(t, store, tasks...)
		for _, task := range tasks {
			switch name := strings.TrimRight(string(task.ID), "01"); name {
			case "a", "open", "b":
			case "early":
				wanted[task.ID] = isSkipped
			default:
				wanted[task.ID] = isAborted
			}
		}
		delete(wanted, id("b1"))
		delete(wanted, id("b2"))
		answer := []stint.Answer{
			{ID: a, Code: stint.StatusAborted}, {ID: b, Code: stint.StatusCompleted},
		}
		if i > 0 {
			answer[0], answer[1] = answer[1], answer[0]
		}
		verdicts, err := store.AnswerTasks(t.Context(), "actor", answer)
		wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
	}
	got := statesOf(t, store)
	for id, state := range wanted {
		if got[id] != state {
			t.Errorf("%s is %s, want %s", id, got[id], state)
		}
	}
}

// Of calls at the same time, the first to commit decides.
// Proves R23.
func TestConditions_TheFirstCallDecides(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	abort := stint.Answer{ID: "a", Code: stint.StatusAborted}
	skip := stint.Answer{ID: "b", Code: stint.StatusCompleted}
	for want, answers := range map[stint.State][2]stint.Answer{
		isAborted: {abort, skip}, isSkipped: {skip, abort},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			task := when("task", stint.Condition{After: "b", Results: []string{"yes"}})
			task.After = []stint.TaskID{"a"}
			insert(t, store, stint.Task{ID: "a", Action: stint.External},
				stint.Task{ID: "b", Action: stint.External}, task, after("behind", "task"))
			tx, err := pool.Begin(t.Context())
			wantErr(t, "Begin", err, nil)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = store.WithTx(tx).AnswerTasks(t.Context(), "actor", answers[:1])
			wantErr(t, "AnswerTasks", err, nil)
			done := make(chan error, 1)
			go func() {
				_, err := store.AnswerTasks(t.Context(), "actor", answers[1:])
				done <- err
			}()
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantErr(t, "AnswerTasks", <-done, nil)
			for _, id := range []stint.TaskID{"task", "behind"} {
				if state := info(t, store, id).State; state != want {
					t.Errorf("%s is %s, want %s", id, state, want)
				}
			}
		})
	}
}
