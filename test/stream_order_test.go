package stint_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A stream is copied in pieces. What it may say does not depend on where it is cut.
// Proves G7.
func TestInsertTasksFrom_TakesDependenciesOnEarlierTasksOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("stored"))
	external := stint.Task{ID: "x", Action: stint.External}
	tests := map[string]struct {
		first, last stint.Task // with other tasks in between
		want        error
		names       stint.TaskID
	}{
		"earlier":           {after("a"), after("b", "a"), nil, ""},
		"stored":            {after("a", "stored"), after("b", "stored", "a"), nil, ""},
		"earlier join":      {join("a"), after("b", "a"), nil, ""},
		"later":             {after("a", "b"), after("b"), stint.ErrTaskNotFound, "b"},
		"later join":        {after("a", "b"), join("b"), stint.ErrTaskNotFound, "b"},
		"join of later":     {join("a", "b"), after("b"), stint.ErrTaskNotFound, "b"},
		"later external":    {after("a", "x"), external, stint.ErrTaskNotFound, "x"},
		"never":             {after("a", "never"), after("b"), stint.ErrTaskNotFound, "never"},
		"never, at the end": {after("a"), after("b", "never"), stint.ErrTaskNotFound, "never"},
		"each other":        {after("a", "b"), after("b", "a"), stint.ErrTaskNotFound, "b"},
		"itself":            {after("a", "a"), after("b"), stint.ErrCycle, ""},
		"twice":             {after("a"), after("a", "stored"), stint.ErrTaskExists, "a"},
		"later, which exists": {
			after("a", "stored"), after("stored"), stint.ErrTaskExists, "stored",
		},
	}
	names := slices.Sorted(maps.Keys(tests))
	for _, c := range slices.Concat(testrun.Pairs(names, []int{0}),
		testrun.Some(testrun.Pairs(names, []int{20_100}))) {
		name, test, between := c.A, tests[c.A], c.B
		tasks := append([]stint.Task{test.first}, numbered("t", between)...)
		tasks = append(tasks, test.last)
		call := fmt.Sprintf("%s, with %d between", name, between)
		inserted, err := store.InsertTasksFrom(t.Context(), stream(tasks, nil))
		wantErr(t, call, err, test.want)
		if test.names != "" {
			wantTasks(t, call, err, test.want, test.names)
		}
		waiting := test.first.ID
		if len(test.first.After) == 0 {
			waiting = test.last.ID
		}
		if errors.Is(test.want, stint.ErrTaskNotFound) &&
			!strings.Contains(err.Error(), fmt.Sprintf("task %q waits", waiting)) {
			t.Errorf("%s: %v does not say that %s waits", call, err, waiting)
		}
		if err == nil && inserted == int64(len(tasks)) {
			_, err := store.DeleteTasks(t.Context(), named(tasks))
			wantErr(t, call, err, nil)
		} else if inserted != 0 {
			t.Errorf("%s: inserted %d", call, inserted)
		}
	}
	left, err := listTasks(t.Context(), store, stint.Filter{})
	if err != nil || len(left) != 1 {
		t.Errorf("there are %d tasks, %v, want the one that was there before", len(left), err)
	}
}
