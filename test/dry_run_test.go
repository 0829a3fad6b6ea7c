package stint_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
)

func allInfos(t *testing.T, store *stint.Store) []stint.TaskInfo {
	t.Helper()
	page, err := store.ListTasks(t.Context(), stint.Filter{Limit: 1000})
	wantErr(t, "ListTasks", err, nil)
	return page.Tasks
}

// wantForetold fails unless the dry run of a change gives what the change then gives and brings
// with it, and changes nothing. The store must not maintain by itself.
func wantForetold(t *testing.T, store *stint.Store, name string, ids []stint.TaskID) {
	t.Helper()
	before := allInfos(t, store)
	told, toldErr := testverbs.Changes(t.Context(), store.DryRun())[name](ids)
	if after := allInfos(t, store); !reflect.DeepEqual(before, after) {
		t.Errorf("the dry run of %s %q left\n%+v\nof\n%+v", name, ids, after, before)
	}
	got, err := testverbs.Changes(t.Context(), store)[name](ids)
	if err == nil {
		after := allInfos(t, store)
		got.Started, got.Skipped = followed(before, after)
		wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
		got.Later = abortedSince(after, allInfos(t, store))
		if got.Later > told.Later && slices.ContainsFunc(before, hadFailed) {
			got.Later = told.Later // what tasks wait for that were aborted before is not told
		}
	}
	if !reflect.DeepEqual(told, got) || fmt.Sprint(toldErr) != fmt.Sprint(err) {
		t.Errorf("%s %q = %+v, %v, but the dry run told %+v, %v",
			name, ids, got, err, told, toldErr)
	}
}

// hadFailed reports whether a task was aborted that may have FailFast.
func hadFailed(task stint.TaskInfo) bool { return task.State == stint.StateAborted }

// followed returns how many tasks wait no longer for others, and how many were skipped, since they
// were seen before.
func followed(before, after []stint.TaskInfo) (started, skipped int) {
	was := map[stint.TaskID]stint.TaskInfo{}
	for _, task := range before {
		was[task.ID] = task
	}
	for _, task := range after {
		begins := task.State == stint.StateReady || task.State == stint.StateScheduled
		switch before := was[task.ID]; {
		case begins && before.State == stint.StateBlocked:
			started++
		case task.State == stint.StateSkipped && !task.FinishedAt.Equal(before.FinishedAt):
			skipped++
		}
	}
	return started, skipped
}

// abortedSince returns how many tasks were aborted since they were seen before.
func abortedSince(before, after []stint.TaskInfo) (aborted int) {
	return byState(after)[stint.StateAborted] - byState(before)[stint.StateAborted]
}

func byState(tasks []stint.TaskInfo) map[stint.State]int {
	count := map[stint.State]int{}
	for _, task := range tasks {
		count[task.State]++
	}
	return count
}

// Proves G210.
func TestDryRun_TellsWhatAVerbDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("owned"), after("b", "owned"), after("c", "b"), anyway("d", "b"))
	owned := ownOne(t, store)
	insert(t, store, after("ready"), join("join", "ready", "c"))
	ids := []stint.TaskID{"owned", "ready"}
	told, err := store.DryRun().AbortTasks(t.Context(), ids, "why")
	wantErr(t, "AbortTasks", err, nil)
	want := stint.Affected{Tasks: ids, InProgress: 1, Others: 3, Started: 1} // b, c and join; d
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
		"DeleteTasks", "ChangeTasks", "AbortTasks", "ChangeTasks", "RetryTasks", "ChangeTasks",
		"ChangeTasks", "AbortTasks", "DeleteTasks",
	} {
		wantForetold(t, store, name, ids)
	}
}

// Proves G210, G316.
func TestDryRun_TellsWhatFollows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, c := range map[string]struct {
		tasks []stint.Task
		first func(t *testing.T, store *stint.Store)
		do    string
		ids   []stint.TaskID
		want  stint.Affected
	}{
		"those that run anyway": {
			tasks: []stint.Task{after("a"), anyway("b", "a"), anyway("c", "a"), after("d", "c")},
			do:    "AbortTasks", ids: []stint.TaskID{"a"}, want: stint.Affected{Started: 2},
		},
		"a branch for the abort, and one that is skipped": {
			tasks: []stint.Task{
				after("a"), when("no", ended("a", stint.StateAborted)),
				whenAny("yes", ended("a", stint.StateCompleted, stint.StateSkipped)),
				after("behind", "no"),
			},
			do: "AbortTasks", ids: []stint.TaskID{"a"},
			want: stint.Affected{Others: 1, Started: 1},
		},
		"what only an aborted task with FailFast needs": {
			tasks: []stint.Task{
				after("a"), after("hotel"), after("rooms", "hotel"),
				{ID: "trip", Action: "act", After: []stint.TaskID{"a", "rooms"}, FailFast: true},
			},
			do: "AbortTasks", ids: []stint.TaskID{"a"}, want: stint.Affected{Others: 1, Later: 2},
		},
		"a task that is skipped again": {
			tasks: []stint.Task{after("a"), when("b", stint.Condition{
				After: "a", Results: []string{"yes"},
			})},
			first: func(t *testing.T, store *stint.Store) {
				t.Helper()
				code := stint.StatusCompleted
				returnWith(t, store, ownOne(t, store),
					stint.Return{Code: code, Result: []byte("no")})
			},
			do: "RetryTasks", ids: []stint.TaskID{"b"}, want: stint.Affected{Skipped: 1},
		},
		"a task whose deadline has passed": {
			tasks: []stint.Task{{ID: "a", Action: "act", Deadline: time.Now().Add(-time.Hour)}},
			first: func(t *testing.T, store *stint.Store) {
				t.Helper()
				wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
			},
			do: "RetryTasks", ids: []stint.TaskID{"a"}, want: stint.Affected{Later: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
			insert(t, store, c.tasks...)
			if c.first != nil {
				c.first(t, store)
			}
			told, err := testverbs.Changes(t.Context(), store.DryRun())[c.do](c.ids)
			c.want.Tasks = c.ids
			if err != nil || !reflect.DeepEqual(told, c.want) {
				t.Errorf("the dry run told %+v, %v, want %+v", told, err, c.want)
			}
			wantForetold(t, store, c.do, c.ids)
		})
	}
}

// Proves G210.
func TestDryRun_LeavesTheCallersTransactionAsItWas(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
	testrun.Long(t)
	const tasks = 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	names := slices.Sorted(maps.Keys(testverbs.Changes(t.Context(), store)))
	ids := make([]stint.TaskID, tasks)
	for i := range ids {
		ids[i] = stint.TaskID(fmt.Sprintf("%02d", i))
	}
	for range testrun.Rounds(150) {
		there := map[stint.TaskID]bool{}
		for _, info := range allInfos(t, store) {
			there[info.ID] = true
		}
		var missing []stint.Task
		for i, id := range ids {
			if there[id] {
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
			task.FailFast = random.IntN(4) == 0
			if random.IntN(4) == 0 {
				setConditions(random, &task)
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
			switch i % 3 {
			case 0:
				code, result := stint.StatusCompleted, []byte([]string{"yes", "no"}[random.IntN(2)])
				returnWith(t, store, task, stint.Return{Code: code, Result: result})
			case 1:
				code := stint.StatusAborted
				returnWith(t, store, task, stint.Return{Code: code})
			}
		}
		wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
		all := allInfos(t, store)
		var some []stint.TaskID
		for range random.IntN(4) + 1 {
			some = append(some, all[random.IntN(len(all))].ID)
		}
		wantForetold(t, store, names[random.IntN(len(names))], some)
	}
}

// setConditions turns what a task waits for into conditions.
func setConditions(random *rand.Rand, task *stint.Task) {
	var conditions []stint.Condition
	for _, id := range task.After {
		condition := stint.Condition{After: id}
		switch random.IntN(4) {
		case 0:
			condition.States = []stint.State{stint.StateAborted}
		case 1:
			condition.States = []stint.State{stint.StateCompleted, stint.StateSkipped}
		case 2:
			condition.Results = []string{"yes"}
		}
		conditions = append(conditions, condition)
	}
	task.After = nil
	if random.IntN(2) == 0 {
		task.When = conditions
	} else {
		task.WhenAny = conditions
	}
}
