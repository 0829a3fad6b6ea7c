package stint_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// recorded are the steps of a task as its owner is given them.
func recorded(t *testing.T, store *stint.Store, owned stint.OwnedTask) string {
	t.Helper()
	steps, err := store.Steps(t.Context(), owned)
	if err != nil {
		t.Fatalf("Steps = %v", err)
	}
	var all []string
	for _, step := range steps {
		if step.RecordedAt.IsZero() || step.Ago < 0 {
			t.Errorf("step %q was recorded at %v, %v ago", step.Name, step.RecordedAt, step.Ago)
		}
		all = append(all, fmt.Sprintf("%s=%s", step.Name, step.Result))
	}
	return strings.Join(all, " ")
}

func wantRecorded(t *testing.T, store *stint.Store, owned stint.OwnedTask, want string) {
	t.Helper()
	if got := recorded(t, store, owned); got != want {
		t.Errorf("steps are %q, want %q", got, want)
	}
}

func recordStep(
	t *testing.T, store *stint.Store, owned stint.OwnedTask, name, result, want string,
) {
	t.Helper()
	kept, err := store.RecordStep(t.Context(), owned, name, []byte(result))
	if err != nil || string(kept) != want {
		t.Errorf("RecordStep of %s = %q, %v, want %q", name, kept, err, want)
	}
}

// Whatever ends a try, the next owner is given the steps, and each step is recorded once.
// Proves G185, G191.
func TestRecordStep_IsGivenToTheNextTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(*testing.T, *stint.Store, stint.OwnedTask){
		"returned": func(t *testing.T, store *stint.Store, task stint.OwnedTask) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending})
		},
		"released": func(t *testing.T, store *stint.Store, task stint.OwnedTask) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Release: true})
		},
		"put off": func(t *testing.T, store *stint.Store, task stint.OwnedTask) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending, RetryAfter: 1})
			maintain(t, store)
		},
		"expired": func(*testing.T, *stint.Store, stint.OwnedTask) {}, // below
		"aborted and retried": func(t *testing.T, store *stint.Store, task stint.OwnedTask) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusAborted})
			retry(t, store, task.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, numbered("a", 2)...)
			first := own(t, store, 2) // in one row
			recordStep(t, store, first[0], "charge", `"c-1"`, `"c-1"`)
			recordStep(t, store, first[0], "ship", ``, ``)
			recordStep(t, store, first[0], "charge", `"c-2"`, `"c-1"`)
			wantRecorded(t, store, first[0], `charge="c-1" ship=`)
			wantRecorded(t, store, first[1], "")

			complete(t, store, first[1])
			end(t, store, first[0])
			if name == "expired" {
				expireLeases(t, pool)
				maintain(t, store)
				recordStep(t, store, first[0], "late", "", "") // nobody else has been given it
				expireLeases(t, pool)
				maintain(t, store)
			} else {
				_, err := store.RecordStep(t.Context(), first[0], "late", nil)
				wantTasks(t, "RecordStep", err, stint.ErrInvalidToken, first[0].ID)
			}
			second := own(t, store, 1)[0]
			_, err := store.RecordStep(t.Context(), first[0], "later", nil)
			wantTasks(t, "RecordStep", err, stint.ErrInvalidToken, first[0].ID)
			_, err = store.Steps(t.Context(), first[0])
			wantTasks(t, "Steps", err, stint.ErrInvalidToken, first[0].ID)
			want := `charge="c-1" ship=`
			if name == "expired" {
				want += " late="
			}
			wantRecorded(t, store, second, want)
			why, err := store.Explain(t.Context(), second.ID)
			if err != nil || len(why.Steps) < 2 || why.Steps[0].Bytes != 5 ||
				!strings.Contains(why.String(), `step "charge" was recorded at `) {
				t.Errorf("Explain = %v, %v, with the steps %v", why, err, why.Steps)
			}
		})
	}
}

func TestRecordStep_RefusesWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	ctx := t.Context()
	for name, input := range map[string]struct {
		step   string
		result []byte
		want   error
	}{
		"no name":          {"", nil, stint.ErrInvalidArgument},
		"a long name":      {strings.Repeat("n", 256), nil, stint.ErrTooLarge},
		"NUL":              {"a\x00", nil, stint.ErrInvalidArgument},
		"no UTF-8":         {"\xff", nil, stint.ErrInvalidArgument},
		"too large result": {"a", make([]byte, 1<<20+1), stint.ErrTooLarge},
	} {
		_, err := store.RecordStep(ctx, task, input.step, input.result)
		var argument *stint.ArgumentError
		if !errors.Is(err, input.want) || !errors.As(err, &argument) {
			t.Errorf("%s: RecordStep = %v, want %v", name, err, input.want)
		}
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 16 {
		if _, err := store.RecordStep(ctx, task, fmt.Sprint(i), large); err != nil {
			t.Fatalf("RecordStep of the largest result = %v", err)
		}
	}
	_, err := store.RecordStep(ctx, task, "one more", []byte("x"))
	wantErr(t, "RecordStep beyond 16 MiB", err, stint.ErrTooLarge)
	exec(t, pool, `INSERT INTO stint.steps (key, name, result)
		SELECT key, 'empty ' || n, '' FROM stint.tasks, generate_series(1, 1000 - 16 - 1) AS n`)
	_, err = store.RecordStep(ctx, task, "the last", nil)
	wantErr(t, "RecordStep of the last of 1,000", err, nil)
	_, err = store.RecordStep(ctx, task, "one more", nil)
	wantErr(t, "RecordStep beyond 1,000", err, stint.ErrTooLarge)
	recordStep(t, store, task, "empty 7", "other", "") // it is there, and stays
}

// One of several calls records a step; the others are given its result.
// Proves G185.
func TestRecordStep_OfSeveralCallersRecordsOne(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	const callers = 8
	kept := make([]string, callers)
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() {
			result, err := store.RecordStep(t.Context(), task, "step", []byte(fmt.Sprint(i)))
			if err != nil {
				t.Errorf("RecordStep = %v", err)
			}
			kept[i] = string(result)
		})
	}
	calls.Wait()
	for _, result := range kept {
		if result != kept[0] {
			t.Fatalf("the callers were told %v, want one result", kept)
		}
	}
	wantRecorded(t, store, task, "step="+kept[0])
}

// A step that must wait for somebody's lock holds up no step of another task.
func TestRecordStep_ThatMustWaitHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	const tasks = 20
	insert(t, store, numbered("a", tasks)...)
	owned := own(t, store, tasks)
	for _, task := range owned { // each has a row of its own then
		wantRecorded(t, store, task, "")
	}
	tx := begin(t, pool)
	wantErr(t, "RecordStep", errOf(
		store.WithTx(tx).RecordStep(t.Context(), owned[0], "step", []byte("1"))), nil)
	waiting := start(func() ([]byte, error) {
		return store.RecordStep(t.Context(), owned[0], "step", []byte("1"))
	})
	var others calls
	for _, task := range owned[1:] {
		others.start(func() error {
			return errOf(store.RecordStep(t.Context(), task, "step", []byte("1")))
		})
	}
	for range owned[1:] {
		wantErr(t, "RecordStep of another task", <-others.done, nil)
	}
	wantGoingOn(t, "RecordStep of a task that is locked", waiting)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "RecordStep", waiting)
	wantErr(t, "RecordStep", err, nil)
	wantRecorded(t, store, owned[0], "step=1")
}

// Nobody is given a task whose owner is recording a step: whoever is given it next finds the step.
// Proves G191.
func TestRecordStep_KeepsTheTaskUntilItsTransactionEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	tx := begin(t, pool)
	if _, err := store.WithTx(tx).RecordStep(t.Context(), task, "step", []byte("1")); err != nil {
		t.Fatal(err)
	}
	expireLeases(t, pool)
	maintain(t, store)
	others, err := store.OwnTasks(t.Context(), "other", 1, []string{"act"}, longLease)
	if err != nil || len(others) > 0 {
		t.Errorf("OwnTasks = %v, %v, want none: its owner is recording a step", others, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	maintain(t, store)
	wantRecorded(t, store, ownOne(t, store), "step=1")
}

// Proves G192.
func TestRecordStep_IsUndoneWithItsTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	tx := begin(t, pool)
	inside := store.WithTx(tx)
	if _, err := inside.RecordStep(t.Context(), task, "step", []byte("1")); err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, inside, task, "step=1")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, store, task, "")
}

// Steps go with their task, whatever takes it away.
// Proves G196.
func TestRecordStep_GoesWithTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	type remove func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, task stint.OwnedTask)
	for name, remove := range map[string]remove{
		"deleted": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			complete(t, store, task)
			if _, err := store.DeleteTasks(t.Context(), []stint.TaskID{task.ID}); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending})
			err := store.ReplaceTasks(t.Context(), []stint.Task{{ID: task.ID, Action: "act"}})
			if err != nil {
				t.Fatal(err)
			}
		},
		"pruned": func(
			t *testing.T, store *stint.Store, pool *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			complete(t, store, task)
			ageFinished(t, pool)
			maintain(t, store)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, pruning)
			insert(t, store, numbered("a", 2)...)
			owned := own(t, store, 2)
			for _, task := range owned {
				recordStep(t, store, task, "step", "1", "1")
			}
			remove(t, store, pool, owned[0])
			n := yields[int](t, pool, "SELECT count(*) FROM stint.steps")
			if n != 1 {
				t.Errorf("there are %d steps, want that of the other task", n)
			}
			wantRecorded(t, store, owned[1], "step=1")
		})
	}
}

// What is kept of tasks that are gone is dropped however much there is, and nothing else.
// Proves G196.
func TestMaintain_DropsTheStepsOfManyTasksThatAreGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("a", 1)...)
	task := ownOne(t, store)
	recordStep(t, store, task, "step", "1", "1")
	for _, keys := range []string{"1, 2500", "1000000000, 1000002500"} { // before and behind
		exec(t, pool, `INSERT INTO stint.steps (key, name, result)
			SELECT gone.key, step.name, ''
			FROM generate_series(`+keys+`) AS gone (key), (VALUES ('a'), ('b')) AS step (name)
			WHERE NOT EXISTS (SELECT FROM stint.tasks WHERE tasks.key = gone.key)`)
	}
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.steps"); n != 1 {
		t.Errorf("%d steps are left, want that of the task", n)
	}
	wantRecorded(t, store, task, "step=1")
}
