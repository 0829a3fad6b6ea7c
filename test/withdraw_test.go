package stint_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestAbortTasks_CancelsInAnyState(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	running := oneInEachState(t, store)
	ids := []stint.TaskID{
		"ready", "scheduled", "span000000", "span000500", "span000501", "span000999", running.ID,
	}
	final := []stint.TaskID{"done000000", "done000001"}
	for range 2 { // again: nothing more happens
		err := errOf(store.AbortTasks(t.Context(), slices.Concat(ids, final, ids), "no more"))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			got := info(t, store, id)
			if got.State != stint.StateAborted || got.AbortCause != stint.CauseCancelled ||
				got.Status != "no more" {
				t.Errorf("GetTasks = %+v", got)
			}
		}
	}
	if got := info(t, store, "done000000").State; got != stint.StateCompleted {
		t.Errorf("a completed task is %s now", got)
	}
	if got := info(t, store, "done000001").AbortCause; got != stint.CauseReturned {
		t.Errorf("an aborted task was aborted by %s now", got)
	}
	err := store.ReturnTask(t.Context(), running.ID, running.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask of a cancelled task", err, stint.ErrInvalidToken)
	if got := own(t, store, 2000); len(got) != 996 {
		t.Errorf("%d tasks are left to own, want 996", len(got))
	}
}

func TestAbortTasks_OfAnUnknownTaskAbortsNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	err := errOf(store.AbortTasks(t.Context(), []stint.TaskID{"c", "a", "b", "b"}, ""))
	wantTasks(t, "AbortTasks", err, stint.ErrTaskNotFound, "b", "c")
	ownOne(t, store)
}

// Proves R17.
func TestDeleteTasks_FreesTheIDs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	oneInEachState(t, store)
	ids := []stint.TaskID{
		"ready", "scheduled", "span000000", "span000500", "span000999", "done000000", "done000001",
	}
	if err := errOf(store.DeleteTasks(t.Context(), slices.Concat(ids, ids))); err != nil {
		t.Fatal(err)
	}
	_, err := store.GetTasks(t.Context(), ids)
	slices.Sort(ids)
	wantTasks(t, "GetTasks", err, stint.ErrTaskNotFound, ids...)
	err = errOf(store.DeleteTasks(t.Context(), ids))
	wantTasks(t, "DeleteTasks repeated", err, stint.ErrTaskNotFound, ids...)
	var tasks []stint.Task
	for _, id := range ids {
		tasks = append(tasks, stint.Task{ID: id, Action: "act"})
	}
	insert(t, store, tasks...)
	if got := own(t, store, 2000); len(got) != 997+len(ids) {
		t.Errorf("%d tasks are left to own, want %d", len(got), 997+len(ids))
	}
}

// Proves R17.
func TestDeleteTasks_RefusesTasksInProgress(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	running := oneInEachState(t, store)
	err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"ready", running.ID, "span000500"}))
	wantTasks(t, "DeleteTasks", err, stint.ErrTaskInProgress, running.ID)
	if got := own(t, store, 2000); len(got) != 1001 {
		t.Errorf("%d tasks are left to own, want 1001", len(got))
	}
	err = store.ReturnTask(t.Context(), running.ID, running.Token, "", stint.StatusCompleted)
	if err != nil {
		t.Errorf("ReturnTask = %v", err)
	}
}

// Proves R5.
func TestReplaceTasks_PutsNewTasksInThePlaceOfOld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	oneInEachState(t, store)
	ids := []stint.TaskID{
		"ready", "scheduled", "span000000", "span000500", "done000000", "done000001", "new",
	}
	for _, more := range []int{0, 100} {
		tasks := numbered(fmt.Sprint("more", more), more)
		for _, id := range ids {
			tasks = append(tasks, stint.Task{
				ID: id, Action: "replaced", Body: fmt.Append(nil, more), MaxTries: 7,
			})
		}
		for range 2 {
			if err := store.ReplaceTasks(t.Context(), tasks); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range ids {
			got := info(t, store, id)
			if got.State != stint.StateReady || got.Action != "replaced" || got.MaxTries != 7 ||
				string(got.Body) != fmt.Sprint(more) || got.Tries != 0 {
				t.Errorf("GetTasks = %+v", got)
			}
		}
	}
	owned, err := store.OwnTasks(t.Context(), "actor", 100, []string{"replaced"}, time.Hour)
	if err != nil || len(owned) != len(ids) {
		t.Errorf("%d replaced tasks can be owned, want %d, %v", len(owned), len(ids), err)
	}
	if got := own(t, store, 2000); len(got) != 998+100 {
		t.Errorf("%d other tasks are left to own, want 1098", len(got))
	}
}

// Any of them in progress, and nothing is replaced.
// Proves R5.
func TestReplaceTasks_RefusesTasksInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	running := oneInEachState(t, store)
	err := store.ReplaceTasks(t.Context(), []stint.Task{
		{ID: "ready", Action: "replaced"},
		{ID: running.ID, Action: "replaced"},
		{ID: "new", Action: "replaced"},
	})
	wantTasks(t, "ReplaceTasks", err, stint.ErrTaskInProgress, running.ID)
	if got := info(t, store, "ready").Action; got != "act" {
		t.Errorf("the action is %q after a refused replacement", got)
	}
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"new"})
	wantErr(t, "GetTasks", err, stint.ErrTaskNotFound)
}

func TestReplaceTasks_RefusesAnIDThatComesTwice(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	err := store.ReplaceTasks(t.Context(), []stint.Task{
		{ID: "b", Action: "x"}, {ID: "a", Action: "x"}, {ID: "b", Action: "y"},
	})
	wantTasks(t, "ReplaceTasks", err, stint.ErrTaskExists, "b")
}

// A token of the old task is no good for the new one.
// Proves R5.
func TestReplaceTasks_VoidsLateTokens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	old := ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	if err := store.ReplaceTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}}); err != nil {
		t.Fatal(err)
	}
	err := store.ReturnTask(t.Context(), "a", old.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask with a token of the replaced task", err, stint.ErrInvalidToken)
	ownOne(t, store)
}

// The newest of many replacements wins, and no call fails but for a task in progress.
// Proves R5.
func TestReplaceTasks_AtOnceLeavesOneTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range testrun.Rounds(100) {
				err := store.ReplaceTasks(t.Context(), []stint.Task{
					{ID: "next", Action: "act", Body: fmt.Append(nil, worker, i)},
					{ID: stint.TaskID(fmt.Sprint("other", i%3)), Action: "act"},
				})
				if err != nil {
					t.Errorf("ReplaceTasks = %v", err)
				}
			}
		})
	}
	wait.Wait()
	if got := own(t, store, 100); len(got) != 4 {
		t.Errorf("%d tasks are left, want 4", len(got))
	}
}

// Verbs that take tasks out of shared spans, while others own from the same spans.
// Proves G57.
func TestWithdrawal_RacesWithOwnersWithoutLoss(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	n := testrun.Rounds(8000)
	insert(t, store, numbered("t", n)...)
	ended := make([]int, n)
	var mutex sync.Mutex
	var wait sync.WaitGroup
	count := func(id stint.TaskID) {
		var i int
		_, _ = fmt.Sscanf(string(id), "t%d", &i)
		mutex.Lock()
		ended[i]++
		mutex.Unlock()
	}
	for worker := range 3 {
		wait.Go(func() { // abort every tenth, one by one
			for i := worker * 10; i < n; i += 30 {
				id := stint.TaskID(fmt.Sprintf("t%06d", i))
				if err := errOf(store.AbortTasks(t.Context(), []stint.TaskID{id}, "")); err != nil {
					t.Errorf("AbortTasks = %v", err)
				}
			}
		})
		wait.Go(func() { // complete what can be owned
			for {
				owned := own(t, store, 17)
				for _, task := range owned {
					err := store.ReturnTask(t.Context(), task.ID, task.Token, "",
						stint.StatusCompleted)
					if err == nil {
						count(task.ID)
					}
				}
				if len(owned) == 0 {
					return
				}
			}
		})
	}
	wait.Wait()
	for _, task := range own(t, store, n) { // what was locked when the last owner looked
		count(task.ID)
	}
	list, err := listTasks(t.Context(), store, stint.Filter{
		States: []stint.State{stint.StateAborted}, Limit: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		count(list[i].ID)
	}
	for i, times := range ended {
		if times != 1 {
			t.Errorf("task %d ended %d times", i, times)
		}
	}
}
