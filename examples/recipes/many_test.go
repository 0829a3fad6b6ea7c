package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
)

// changeMany aborts or deletes the tasks that pass a filter, as change says: piece by piece, each
// in a transaction of its own. It tells after each how many have changed so far. When ctx ends,
// what has changed stays so, and another call goes on with the rest.
func changeMany(
	ctx context.Context, store *stint.Store, filter stint.Filter,
	change func(context.Context, []stint.TaskID) (stint.Affected, error), tell func(changed int),
) error {
	changed := 0
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return err
		}
		ids := make([]stint.TaskID, len(page.Tasks))
		for i, task := range page.Tasks {
			ids[i] = task.ID
		}
		affected, err := change(ctx, ids)
		var refused *stint.TaskError
		for attempt := 0; errors.As(err, &refused) && attempt < 10; attempt++ {
			// Meanwhile these have gone, or somebody owns them. Nothing has changed.
			ids = slices.DeleteFunc(ids, func(id stint.TaskID) bool {
				return slices.Contains(refused.IDs, id)
			})
			affected, err = change(ctx, ids)
		}
		if err != nil {
			return err
		}
		changed += len(affected.Tasks) + affected.Others
		tell(changed)
		if page.Next == "" {
			return nil
		}
		filter.After = page.Next
	}
}

// Even tasks that depend on one another are aborted in pieces of the size that the filter asks for.
func TestChangeMany_AbortsInPieces(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	const n, piece = 250, 100
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint("export/", i)), Action: "export"}
		if i > 0 {
			tasks[i].After = []stint.TaskID{tasks[i-1].ID}
		}
	}
	insert(t, store, append(tasks, stint.Task{ID: "other", Action: "export"})...)
	filter := stint.Filter{
		IDPrefix: "export/", NewestFirst: true, Limit: piece,
		States: []stint.State{stint.StateBlocked, stint.StateScheduled, stint.StateReady},
	}
	abort := func(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
		return store.AbortTasks(ctx, ids, "no longer wanted")
	}
	var told []int
	err := changeMany(t.Context(), store.Store, filter, abort, func(changed int) {
		told = append(told, changed)
	})
	if want := []int{100, 200, 250}; err != nil || !slices.Equal(told, want) {
		t.Errorf("changeMany = %v, after %v, want %v", err, told, want)
	}
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"other"})
	if err != nil || infos[0].State != stint.StateReady {
		t.Errorf("the other task is %+v, %v", infos, err)
	}
}

// What has gone, or is in progress, is left out; a call that was stopped is repeated.
func TestChangeMany_GoesOnWhereItWasStopped(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := stinttest.New(t, stint.Options{})
	for i := range 10 {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint("mail/", i)), Action: "mail"})
	}
	filter := stint.Filter{Actions: []string{"mail"}, Limit: 4}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	meanwhile := false
	remove := func(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
		if !meanwhile {
			meanwhile = true
			_, err := store.OwnTasks(ctx, "worker", 1, []string{"mail"}, time.Hour)
			if err == nil {
				_, err = store.DeleteTasks(ctx, []stint.TaskID{"mail/1"})
			}
			if err != nil {
				t.Error(err)
			}
		}
		return store.DeleteTasks(ctx, ids)
	}
	var told []int
	err := changeMany(ctx, store.Store, filter, remove, func(changed int) {
		told = append(told, changed)
		stop()
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(told, []int{2}) {
		t.Errorf("changeMany = %v, after %v, want it canceled after 2", err, told)
	}
	err = changeMany(t.Context(), store.Store, filter, remove, func(changed int) {
		told = append(told, changed)
	})
	if want := []int{2, 3, 6}; err != nil || !slices.Equal(told, want) {
		t.Errorf("changeMany = %v, after %v, want %v", err, told, want)
	}
	page, err := store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].State != stint.StateInProgress {
		t.Errorf("left are %+v, %v, want the task in progress", page.Tasks, err)
	}
}
