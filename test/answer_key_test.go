package stint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// guarded is an external task with a key of its own.
func guarded(id stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: stint.External, AnswerKey: stint.NewAnswerKey()}
}

// answerWith answers a task with a key, and returns the verdict.
func answerWith(t *testing.T, store *stint.Store, id stint.TaskID, key stint.AnswerKey) error {
	t.Helper()
	verdicts, err := store.AnswerTasks(t.Context(), "somebody", []stint.Answer{
		{ID: id, Key: key, Code: stint.StatusCompleted},
	})
	if err != nil {
		t.Fatalf("AnswerTasks = %v", err)
	}
	return verdicts[0]
}

// However a task was inserted, only its own key answers it, and only once.
// Proves R22.
func TestAnswerKey_AnswersItsTaskAndNoOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, insertion := range map[string]struct {
		others []stint.Task
		insert func(*testing.T, *stint.Store, *pgxpool.Pool, []stint.Task) error
	}{
		"alone": {},
		"few":   {others: []stint.Task{external("b"), {ID: "c", Action: "act"}}},
		"a network": {others: []stint.Task{
			{ID: "c", Action: "act", After: []stint.TaskID{"a", "b"}}, external("b"),
		}},
		"many": {others: numbered("t", 200)},
		"a stream": {others: numbered("t", 3), insert: func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, tasks []stint.Task,
		) error {
			t.Helper()
			return errOf(store.InsertTasksFrom(t.Context(), stream(tasks, nil)))
		}},
		"a replacement": {others: numbered("t", 3), insert: func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, tasks []stint.Task,
		) error {
			t.Helper()
			insert(t, store, guarded("a"))
			return store.ReplaceTasks(t.Context(), tasks)
		}},
		"in a transaction": {others: numbered("t", 3), insert: func(
			t *testing.T, store *stint.Store, pool *pgxpool.Pool, tasks []stint.Task,
		) error {
			t.Helper()
			tx := begin(t, pool)
			return errors.Join(store.WithTx(tx).InsertTasks(t.Context(), tasks),
				tx.Commit(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			task, other := guarded("a"), guarded("other")
			tasks := append(insertion.others, task, other)
			if insertion.insert == nil {
				insert(t, store, tasks...)
			} else if err := insertion.insert(t, store, pool, tasks); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range []stint.AnswerKey{
				"", other.AnswerKey, stint.NewAnswerKey(), task.AnswerKey + "x",
			} {
				wantTasks(t, "AnswerTasks", answerWith(t, store, "a", wrong),
					stint.ErrInvalidAnswerKey, "a")
			}
			wantState(t, store, stint.StateReady, "a")
			wantErr(t, "AnswerTasks", answerWith(t, store, "a", task.AnswerKey), nil)
			wantTasks(t, "AnswerTasks again", answerWith(t, store, "a", task.AnswerKey),
				stint.ErrTaskFinished, "a")
			wantTasks(t, "AnswerTasks with a wrong key", answerWith(t, store, "a", ""),
				stint.ErrInvalidAnswerKey, "a") // who has no key learns nothing
			wantState(t, store, stint.StateReady, "other")
		})
	}
}

// A key for a task that has none is wrong, and one that is no key is refused.
func TestAnswerKey_RefusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, external("a"))
	wantTasks(t, "AnswerTasks", answerWith(t, store, "a", stint.NewAnswerKey()),
		stint.ErrInvalidAnswerKey, "a")
	wantTasks(t, "AnswerTasks", answerWith(t, store, "gone", stint.NewAnswerKey()),
		stint.ErrTaskNotFound, "gone")
	for name, key := range map[string]stint.AnswerKey{
		"short": "0123456789abcde", "long": stint.AnswerKey(strings.Repeat("k", 256)),
		"NUL": "0123456789abcdef\x00", "no UTF-8": "0123456789abcdef\xff",
	} {
		wantErr(t, "AnswerTasks with a key that is "+name, answerWith(t, store, "a", key),
			stint.ErrInvalidArgument)
		err := store.InsertTasks(t.Context(), []stint.Task{
			{ID: "b", Action: stint.External, AnswerKey: key},
		})
		wantErr(t, "InsertTasks with a key that is "+name, err, stint.ErrInvalidArgument)
	}
	task := guarded("b")
	task.Action = "act"
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{task}),
		stint.ErrInvalidArgument)
	err := store.Debounce(t.Context(), guarded("b"), 1, 2)
	wantErr(t, "Debounce", err, stint.ErrInvalidArgument)
	err = store.PutSchedules(t.Context(), []stint.Schedule{
		{Name: "s", Spec: "@daily", Tasks: []stint.Task{guarded("b")}},
	})
	wantErr(t, "PutSchedules", err, stint.ErrInvalidArgument)
}

// A task that is retried can be answered again, with its key.
// Proves R22.
func TestAnswerKey_AnswersAgainAfterARetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	task := guarded("a")
	insert(t, store, task)
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")), nil)
	wantTasks(t, "AnswerTasks", answerWith(t, store, "a", task.AnswerKey),
		stint.ErrTaskFinished, "a")
	retry(t, store, "a")
	wantErr(t, "AnswerTasks", answerWith(t, store, "a", task.AnswerKey), nil)
}

// Keys go with their tasks, and are never stored as they are.
// Proves G202.
func TestAnswerKey_GoesWithTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	stays := guarded("stays")
	insert(t, store, guarded("deleted"), guarded("pruned"), stays)
	wantErr(t, "DeleteTasks",
		errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"deleted"})), nil)
	exec(t, pool, "DELETE FROM stint.tasks WHERE id = 'pruned'")
	exec(t, pool, "DELETE FROM stint.ready WHERE lo NOT IN (SELECT key FROM stint.tasks)")
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.answer_keys"); n != 1 {
		t.Errorf("%d keys are left, want that of the task that stays", n)
	}
	hash := yields[string](t, pool, "SELECT encode(hash, 'escape') FROM stint.answer_keys")
	if strings.Contains(hash, string(stays.AnswerKey)) {
		t.Error("the key is stored")
	}
	if text := fmt.Sprintf("%v %+v %#v", stays, stays, stays); strings.Contains(text,
		string(stays.AnswerKey)) {
		t.Errorf("%s shows the key", text)
	}
}

// Answers, deadlines, aborts and retries race with one another. Of the answers to a task one wins,
// and every caller is told the truth.
// Proves G197.
func TestAnswerKey_OneOfManyWins(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tasks, each = 20, 10
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	all := make([]stint.Task, tasks)
	for i := range all {
		all[i] = guarded(stint.TaskID(fmt.Sprint("a", i)))
		all[i].Deadline = time.Now().Add(300 * time.Millisecond) // before or behind the answers
	}
	insert(t, store, all...)
	won := make([]string, tasks*each)
	var calls []func() error
	for i := range tasks * each {
		task := all[i%tasks]
		calls = append(calls, func() error {
			by := fmt.Sprint("caller ", i)
			verdicts, err := store.AnswerTasks(t.Context(), "somebody", []stint.Answer{
				{ID: task.ID, Key: task.AnswerKey, Code: stint.StatusCompleted, Status: by},
			})
			switch {
			case err != nil:
				return err
			case verdicts[0] == nil:
				won[i] = by
			case !errors.Is(verdicts[0], stint.ErrTaskFinished):
				return verdicts[0]
			}
			return nil
		})
	}
	calls = append(calls, func() error {
		return store.Maintain(t.Context())
	})
	calls = append(calls, func() error {
		return errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a1", "a2", "a3"}, ""))
	})
	calls = append(calls, func() error {
		return errOf(store.RetryTasks(t.Context(), []stint.TaskID{"a1", "a2", "a3"}))
	})
	wantErr(t, "a call", errors.Join(atOnce(calls...)...), nil)
	for i, task := range all {
		var winners []string
		for n := i; n < len(won); n += tasks {
			if won[n] != "" {
				winners = append(winners, won[n])
			}
		}
		got := info(t, store, task.ID)
		retried := i >= 1 && i <= 3
		switch {
		case got.State == stint.StateCompleted &&
			(len(winners) == 1 || retried && len(winners) > 0):
			if got.Status != winners[len(winners)-1] && !retried {
				t.Errorf("%s has the status %q, want that of %v", task.ID, got.Status, winners)
			}
		case len(winners) > 0 && !retried, got.FinishedAt.IsZero() && !retried:
			t.Errorf("%s is %s, and %v were told that they won", task.ID, got.State, winners)
		}
	}
}
