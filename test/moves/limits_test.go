//go:build unix

package moves_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

const turns = 400 // a multiple of the turns of two keys with weights 1 and 3

// keyed returns tasks with an action and a key, whose IDs are the key with a number.
func keyed(action, key string, n int) []stint.Task {
	tasks := named(key+"/", n)
	for i := range tasks {
		tasks[i].Action, tasks[i].Key = action, key
	}
	return tasks
}

// limit sets limits of every kind, and makes tasks that wait for capacity below them.
func limit(tb testing.TB, store *stint.Store) (holder stint.OwnedTask) {
	tb.Helper()
	ctx := tb.Context()
	for action, limits := range map[string]stint.Limits{
		"limited": {Concurrency: 10, ConcurrencyPerKey: 1},
		"rated":   {RatePerKey: stint.Rate{Tasks: 1, Per: 1000 * time.Hour}},
		"fair":    {Fair: true},
		"group":   {Fair: true, FairGroup: "tenants"},
	} {
		wantErr(tb, "SetLimits", store.SetLimits(ctx, action, limits), nil)
	}
	wantErr(tb, "PauseKeys", store.PauseKeys(ctx, "limited", "paused"), nil)
	wantErr(tb, "Pause", store.Pause(ctx, "paused"), nil)
	wantErr(tb, "SetWeights", store.SetWeights(ctx, "fair", map[string]int{"heavy": 3}), nil)
	for _, tasks := range [][]stint.Task{
		keyed("limited", "full", 3), keyed("limited", "paused", 1), keyed("rated", "spent", 2),
		keyed("fair", "light", turns), keyed("fair", "heavy", turns),
		{{ID: "of a paused action", Action: "paused"}},
	} {
		wantErr(tb, "InsertTasks", store.InsertTasks(ctx, tasks), nil)
	}
	holder = wantFetch(tb, store, "limited", "full/0")[0]
	complete(tb, store, wantFetch(tb, store, "rated", "spent/0")...)
	wantTurns(tb, store)
	wantFetch(tb, store, "paused")
	return holder
}

// wantFetch owns what is fetched of an action, and checks that it is these tasks.
func wantFetch(
	tb testing.TB, store *stint.Store, action string, ids ...stint.TaskID,
) []stint.OwnedTask {
	tb.Helper()
	tasks, err := store.OwnTasks(tb.Context(), "a", 1000, []string{action}, time.Hour)
	wantErr(tb, "OwnTasks", err, nil)
	var got []stint.TaskID
	for _, task := range tasks {
		got = append(got, task.ID)
	}
	if !slices.Equal(got, ids) {
		tb.Errorf("of %q, %q are fetched, want %q", action, got, ids)
	}
	return tasks
}

// wantTurns performs tasks of the fair action, of which each key gets its share.
func wantTurns(tb testing.TB, store *stint.Store) {
	tb.Helper()
	tasks, err := store.OwnTasks(tb.Context(), "a", turns, []string{"fair"}, time.Hour)
	wantErr(tb, "OwnTasks", err, nil)
	got := map[string]int{}
	for _, task := range tasks {
		got[task.Key]++
	}
	if got["heavy"] != turns/4*3 || got["light"] != turns/4 {
		tb.Errorf("the keys get %v", got)
	}
	complete(tb, store, tasks...)
}

func complete(tb testing.TB, store *stint.Store, tasks ...stint.OwnedTask) {
	tb.Helper()
	returns := make([]stint.Return, len(tasks))
	for i, task := range tasks {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	}
	verdicts, err := store.ReturnTasks(tb.Context(), returns)
	wantErr(tb, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
}

// limits is what a store says of all limits.
func limits(tb testing.TB, store *stint.Store) string {
	tb.Helper()
	list, err := store.ListLimits(tb.Context())
	wantErr(tb, "ListLimits", err, nil)
	return fmt.Sprintf("%+v", list)
}

// wantLimits checks that the limits are as they were, and in force, and that what waits below them
// comes when there is room: nothing is left of these tasks then.
func (w *world) wantLimits(tb testing.TB, store *stint.Store) {
	tb.Helper()
	ctx := tb.Context()
	if got := limits(tb, store); got != w.limits {
		tb.Errorf("the limits are\n%s\nwant\n%s", got, w.limits)
	}
	for _, action := range []string{"limited", "rated", "paused"} {
		wantFetch(tb, store, action)
	}
	complete(tb, store, w.holder)
	complete(tb, store, wantFetch(tb, store, "limited", "full/1")...)
	complete(tb, store, wantFetch(tb, store, "limited", "full/2")...)
	wantErr(tb, "ResumeKeys", store.ResumeKeys(ctx, "limited", "paused"), nil)
	complete(tb, store, wantFetch(tb, store, "limited", "paused/0")...)
	wantErr(tb, "Resume", store.Resume(ctx, "paused"), nil)
	complete(tb, store, wantFetch(tb, store, "paused", "of a paused action")...)
	// One of the keys has tasks for one more time only.
	more := keyed("fair", "heavy", 2*turns)[turns:]
	wantErr(tb, "InsertTasks", store.InsertTasks(ctx, more), nil)
	wantTurns(tb, store)
	_, err := store.AbortTasks(ctx, []stint.TaskID{"spent/1"}, "no token comes")
	wantErr(tb, "AbortTasks", err, nil)
	tasks, err := store.OwnTasks(ctx, "a", 2*turns, []string{"fair"}, time.Hour)
	if err != nil || len(tasks) != turns {
		tb.Errorf("OwnTasks = %d tasks, %v, want the rest", len(tasks), err)
	}
	complete(tb, store, tasks...)
}
