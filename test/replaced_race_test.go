package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A verb that has found a task by its ID, which is then replaced, goes on with the new task: at no
// moment was the old one aborted under its ID.
func TestReplaceTasks_LeavesTheIDToTheNewTaskForThoseWhoHaveFoundTheOld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, try := range map[string]struct {
		behind string // the statement that comes behind the look for the ID
		call   func(ctx context.Context, store *stint.Store) error
		want   string
	}{
		"InsertTasks": {"keep_ends", func(ctx context.Context, store *stint.Store) error {
			return store.InsertTasks(ctx, []stint.Task{after("n", "t")})
		}, "n blocked, t ready, x ready"},
		"AddDependencies": {"lock_states", func(ctx context.Context, store *stint.Store) error {
			return store.AddDependencies(ctx, []stint.Dependency{
				{Predecessor: "t", Dependent: "x"},
			})
		}, "t ready, x blocked"},
		"ChangeTasks": {"change_tasks", func(ctx context.Context, store *stint.Store) error {
			return errOf(store.ChangeTasks(ctx, []stint.TaskID{"t"},
				stint.TaskChanges{StartAfter: time.Hour}))
		}, "t scheduled, x ready"},
		"AbortTasks": {"withdraw_tasks", func(ctx context.Context, store *stint.Store) error {
			return errOf(store.AbortTasks(ctx, []stint.TaskID{"t"}, ""))
		}, "t aborted, x ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, after("t"), after("x"))
			trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(try.behind))
			done := hold(t, trap, func() error { return try.call(t.Context(), c.Store) })
			err := c.truth.ReplaceTasks(t.Context(), []stint.Task{after("t")})
			wantErr(t, "ReplaceTasks", err, nil)
			trap.Release()
			wantErr(t, name, <-done, nil)
			infos, err := listTasks(t.Context(), c.truth, stint.Filter{Limit: 10})
			wantErr(t, "ListTasks", err, nil)
			states := map[stint.TaskID]stint.State{}
			for _, info := range infos {
				states[info.ID] = info.State
			}
			got := ""
			for _, id := range []stint.TaskID{"n", "t", "x"} {
				if state, ok := states[id]; ok {
					if got != "" {
						got += ", "
					}
					got += string(id) + " " + string(state)
				}
			}
			if got != try.want {
				t.Errorf("the tasks are %s, want %s", got, try.want)
			}
		})
	}
}
