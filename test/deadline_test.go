package stint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// expiring is an external task whose deadline is still to come.
func expiring(id stint.TaskID, after ...stint.TaskID) stint.Task {
	task := external(id)
	task.After, task.Deadline = after, time.Now().Add(time.Hour)
	return task
}

// inTimeOf calls something when the deadlines have passed, but nobody has maintained since.
func inTimeOf(t *testing.T, pool *pgxpool.Pool, answers ...stint.Answer) []error {
	t.Helper()
	passDeadlines(t, pool)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	verdicts, err := store.AnswerTasks(t.Context(), "people", answers)
	wantErr(t, "AnswerTasks", err, nil)
	return verdicts
}

// No answer takes effect behind the deadline of its task, whoever maintains, and whatever else the
// task waits for. Whoever comes late is told so, and ends the task as its deadline would have.
// Proves R6, R22.
func TestAnswerTasks_RefusesWhatIsPastItsDeadline(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	guarded := guarded("guarded")
	guarded.Deadline = time.Now().Add(time.Hour)
	scheduled := expiring("scheduled")
	scheduled.NotBefore = time.Now().Add(time.Hour)
	insert(t, store, expiring("a"), after("next", "a"), anyway("anyway", "a"), guarded,
		scheduled, stint.Task{ID: "first", Action: "act"}, expiring("blocked", "first"),
		external("no deadline"))
	answers := answered("a", "scheduled", "blocked", "no deadline")
	answers = append(answers, stint.Answer{
		ID: "guarded", Key: guarded.AnswerKey, Code: stint.StatusAborted,
	})
	verdicts := inTimeOf(t, pool, answers...)
	for i, verdict := range verdicts {
		if id := answers[i].ID; id == "no deadline" {
			wantErr(t, "the answer", verdict, nil)
		} else {
			wantTasks(t, "the answer", verdict, stint.ErrTaskFinished, id)
			const want = "task has finished: its deadline has passed: "
			if got := verdict.Error(); got != want+fmt.Sprintf("%q", id) {
				t.Errorf("the answer is told %s", got)
			}
		}
	}
	for _, id := range []stint.TaskID{"a", "scheduled", "blocked", "guarded"} {
		if got := info(t, store, id); got.AbortCause != stint.CauseExpired {
			t.Errorf("%s is %s, aborted for %q", id, got.State, got.AbortCause)
		}
	}
	wantState(t, store, stint.StateAborted, "next")
	wantState(t, store, stint.StateReady, "anyway")
	wantState(t, store, stint.StateCompleted, "no deadline")
	again, err := store.AnswerTasks(t.Context(), "people", answered("a"))
	wantErr(t, "AnswerTasks again", errors.Join(append(again, err)...), stint.ErrTaskFinished)
}

// The look of an answer comes before the deadline, and what it does behind it.
// Proves R22.
func TestAnswerTasks_LooksAtTheDeadlineWhenItTakesEffect(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, expiring("a"))
	late := interpose(t, pool, "take_external", func() { passDeadlines(t, pool) })
	verdicts, err := late.AnswerTasks(t.Context(), "people", answered("a"))
	wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), stint.ErrTaskFinished)
	if got := info(t, store, "a"); got.AbortCause != stint.CauseExpired {
		t.Errorf("a is %s, aborted for %q", got.State, got.AbortCause)
	}
}

// Whoever has no key learns nothing, and in the caller's transaction nothing is changed; nor is a
// task of another action, which its owner may still return.
func TestAnswerTasks_ChangesNothingOfWhatItMayNotAnswer(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	guarded := guarded("guarded")
	guarded.Deadline = time.Now().Add(time.Hour)
	insert(t, store, guarded, expiring("a"),
		stint.Task{ID: "other", Action: "act", Deadline: time.Now().Add(time.Hour)})
	passDeadlines(t, pool)
	wantErr(t, "the answer", answerWith(t, store, "guarded", ""), stint.ErrInvalidAnswerKey)
	wantErr(t, "the answer", answerWith(t, store, "other", ""), stint.ErrInvalidArgument)
	tx := begin(t, pool)
	wantErr(t, "the answer", answerWith(t, store.WithTx(tx), "a", ""), stint.ErrTaskFinished)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantState(t, store, stint.StateReady, "guarded", "a", "other")
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "guarded", "a", "other")
}

// Nobody is given a task behind its deadline. An owner keeps it until somebody maintains, and may
// do all that owners may, since what it did is done.
// Proves R6, R8.
func TestDeadline_LeavesATaskToItsOwnerUntilSomebodyMaintains(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, does := range map[string]func(context.Context, *stint.Store, stint.OwnedTask) error{
		"ReturnTask": func(ctx context.Context, s *stint.Store, owned stint.OwnedTask) error {
			return s.ReturnTask(ctx, owned.ID, owned.Token, "done", stint.StatusCompleted)
		},
		"ReturnTask as pending": func(
			ctx context.Context, s *stint.Store, owned stint.OwnedTask,
		) error {
			return s.ReturnTask(ctx, owned.ID, owned.Token, "no", stint.StatusPending)
		},
		"SetStatus": func(ctx context.Context, s *stint.Store, owned stint.OwnedTask) error {
			return s.SetStatus(ctx, owned, "half", 0.5)
		},
		"RecordStep": func(ctx context.Context, s *stint.Store, owned stint.OwnedTask) error {
			return errOf(s.RecordStep(ctx, owned, "step", nil))
		},
		"ExtendTasksOwnership": func(
			ctx context.Context, s *stint.Store, owned stint.OwnedTask,
		) error {
			extended, err := s.ExtendTasksOwnership(ctx, "actor", []stint.OwnedTask{owned},
				2*time.Hour)
			if err == nil && !extended[0] {
				return stint.ErrInvalidToken
			}
			return err
		},
	} {
		for _, lease := range []string{"", "late"} {
			t.Run(name+" "+lease, func(t *testing.T) {
				t.Parallel()
				store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
				insert(t, store,
					stint.Task{ID: "a", Action: "act", Deadline: time.Now().Add(time.Hour)})
				owned := ownOne(t, store)
				if lease == "late" {
					expireLeases(t, pool)
				}
				passDeadlines(t, pool)
				wantErr(t, name, does(t.Context(), store, owned), nil)
				given, err := store.OwnTasks(t.Context(), "b", 1, []string{"act"}, time.Hour)
				if err != nil || len(given) > 0 {
					t.Errorf("OwnTasks = %v, %v", given, err)
				}
				maintain(t, store)
				want := stint.StateAborted
				if name == "ReturnTask" {
					want = stint.StateCompleted
				}
				wantState(t, store, want, "a")
				again := does(t.Context(), store, owned)
				wantErr(t, name+" again", again, stint.ErrInvalidToken)
			})
		}
	}
}

// A retried task whose deadline has passed is not given to anybody, and cannot be answered.
func TestDeadline_HoldsForWhatIsRetried(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, expiring("asked"),
		stint.Task{ID: "a", Action: "act", Deadline: time.Now().Add(time.Hour)})
	passDeadlines(t, pool)
	maintain(t, store)
	retry(t, store, "a", "asked")
	if given := own(t, store, 1); len(given) > 0 {
		t.Errorf("OwnTasks = %v", given)
	}
	wantErr(t, "the answer", answerWith(t, store, "asked", ""), stint.ErrTaskFinished)
	wantState(t, store, stint.StateAborted, "asked")
}

// A task behind its deadline that nobody has aborted yet gives its queue no precedence.
// Proves R7.
func TestDeadline_GivesNoPrecedenceWhenItHasPassed(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store,
		stint.Task{ID: "past", Action: "act", Priority: 2, Deadline: time.Now().Add(time.Hour)},
		stint.Task{ID: "low", Action: "act"},
		stint.Task{ID: "high", Action: "other", Priority: 1})
	passDeadlines(t, pool)
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act", "other"}, time.Hour)
	if err != nil || len(owned) != 1 || owned[0].ID != "high" {
		t.Errorf("OwnTasks = %v, %v, want the one with the higher priority", idsOf(owned), err)
	}
}
