package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// A dryRunner has the verbs that change tasks of others.
type dryRunner interface {
	AbortTasks(context.Context, []stint.TaskID, string) (stint.Affected, error)
	RetryTasks(context.Context, []stint.TaskID) (stint.Affected, error)
	DeleteTasks(context.Context, []stint.TaskID) (stint.Affected, error)
	ChangeTasks(context.Context, []stint.TaskID, stint.TaskChanges) (stint.Affected, error)
}

// changes are the verbs of a store, or of its dry run, by name.
func changes(
	ctx context.Context, of dryRunner,
) map[string]func([]stint.TaskID) (stint.Affected, error) {
	return map[string]func([]stint.TaskID) (stint.Affected, error){
		"abort": func(ids []stint.TaskID) (stint.Affected, error) {
			return of.AbortTasks(ctx, ids, "why")
		},
		"retry": func(ids []stint.TaskID) (stint.Affected, error) {
			return of.RetryTasks(ctx, ids)
		},
		"delete": func(ids []stint.TaskID) (stint.Affected, error) {
			return of.DeleteTasks(ctx, ids)
		},
		"change": func(ids []stint.TaskID) (stint.Affected, error) {
			return of.ChangeTasks(ctx, ids, stint.TaskChanges{Priority: new(int16(1))})
		},
	}
}

func allInfos(t *testing.T, store *stint.Store) []stint.TaskInfo {
	t.Helper()
	page, err := store.ListTasks(t.Context(), stint.Filter{Limit: 1000})
	wantErr(t, "ListTasks", err, nil)
	return page.Tasks
}

// wantForetold fails unless the dry run of a change gives what the change then gives, and changes
// nothing.
func wantForetold(t *testing.T, store *stint.Store, name string, ids []stint.TaskID) {
	t.Helper()
	before := allInfos(t, store)
	told, toldErr := changes(t.Context(), store.DryRun())[name](ids)
	if after := allInfos(t, store); !reflect.DeepEqual(before, after) {
		t.Errorf("the dry run of %s %q left\n%+v\nof\n%+v", name, ids, after, before)
	}
	got, err := changes(t.Context(), store)[name](ids)
	if !reflect.DeepEqual(told, got) || fmt.Sprint(toldErr) != fmt.Sprint(err) {
		t.Errorf("%s %q = %+v, %v, but the dry run told %+v, %v",
			name, ids, got, err, told, toldErr)
	}
}

// Proves G210.
func TestDryRun_TellsWhatAVerbDoes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("owned"), after("b", "owned"), after("c", "b"), anyway("d", "b"))
	owned := ownOne(t, store)
	insert(t, store, after("ready"), join("join", "ready", "c"))
	ids := []stint.TaskID{"owned", "ready"}
	told, err := store.DryRun().AbortTasks(t.Context(), ids, "why")
	wantErr(t, "AbortTasks", err, nil)
	want := stint.Affected{Tasks: ids, InProgress: 1, Others: 3} // b, c and join
	if !reflect.DeepEqual(told, want) {
		t.Errorf("the dry run told %+v, want %+v", told, want)
	}
	kept, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{owned}, time.Hour)
	if err != nil || !kept[0] {
		t.Errorf("after the dry run its owner has lost a task: %v, %v", kept, err)
	}
	_, err = store.DryRun().DeleteTasks(t.Context(), ids)
	wantErr(t, "DeleteTasks", err, stint.ErrTaskInProgress)
	_, err = store.DryRun().RetryTasks(t.Context(), []stint.TaskID{"gone", "ready"})
	wantErr(t, "RetryTasks", err, stint.ErrTaskNotFound)
	for _, name := range []string{
		"delete", "change", "abort", "change", "retry", "change", "change", "abort", "delete",
	} {
		wantForetold(t, store, name, ids)
	}
}

// Proves G210.
func TestDryRun_LeavesTheCallersTransactionAsItWas(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b", "a"))
	errUndone := errors.New("undone")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		store := store.WithTx(tx)
		told, err := store.DryRun().DeleteTasks(t.Context(), []stint.TaskID{"a"})
		want := stint.Affected{Tasks: []stint.TaskID{"a"}, Others: 1}
		if err != nil || !reflect.DeepEqual(told, want) {
			t.Errorf("the dry run told %+v, %v, want %+v", told, err, want)
		}
		_, err = store.DryRun().DeleteTasks(t.Context(), []stint.TaskID{"gone"})
		wantErr(t, "DeleteTasks", err, stint.ErrTaskNotFound)
		wantState(t, store, stint.StateReady, "a")
		wantState(t, store, stint.StateBlocked, "b")
		return errUndone
	})
	wantErr(t, "the transaction", err, errUndone)
}

// Proves G210.
func TestDryRun_TellsWhatVerbsDoToRandomNetworks(t *testing.T) {
	t.Parallel()
	const tasks, rounds = 40, 30
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store := newStore(t)
	ids := make([]stint.TaskID, tasks)
	for i := range ids {
		ids[i] = stint.TaskID(fmt.Sprintf("%02d", i))
	}
	for range rounds {
		var missing []stint.Task
		for i, id := range ids {
			if _, err := store.GetTasks(t.Context(), []stint.TaskID{id}); err == nil {
				continue
			}
			task := after(id)
			for range random.IntN(3) {
				if i > 0 {
					task.After = append(task.After, ids[random.IntN(i)])
				}
			}
			slices.Sort(task.After)
			task.After = slices.Compact(task.After)
			if random.IntN(4) == 0 {
				task.OnAbort = stint.RunAnyway
			}
			if random.IntN(4) == 0 && len(task.After) > 0 {
				task.Action = stint.Spontaneous
			}
			missing = append(missing, task)
		}
		for _, task := range missing { // one by one: some follow tasks that were aborted
			if err := store.InsertTasks(t.Context(), []stint.Task{task}); err != nil &&
				!errors.Is(err, stint.ErrPredecessorAborted) {
				t.Fatal(err)
			}
		}
		for i, task := range own(t, store, random.IntN(5)+1) {
			if i%2 == 0 {
				complete(t, store, task)
			}
		}
		there := allInfos(t, store)
		var some []stint.TaskID
		for range random.IntN(4) + 1 {
			some = append(some, there[random.IntN(len(there))].ID)
		}
		wantForetold(t, store, []string{"abort", "retry", "delete", "change"}[random.IntN(4)], some)
	}
}
