package stint_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A crowd is tasks that a verb changes, or that change with them.
type crowd struct {
	tasks []stint.Task
	roots int // how many of the tasks bring down the others; they come first
}

// largeCrowds are n tasks each that hang together in some way.
func largeCrowds() map[string]func(n int) crowd {
	return map[string]func(n int) crowd{
		"tasks that wait for nothing": func(n int) crowd { return crowd{numbered("t", n), n} },
		"dependents of one task": func(n int) crowd {
			tasks := numbered("t", n)
			for i := range tasks[1:] {
				tasks[i+1].After = []stint.TaskID{tasks[0].ID}
			}
			return crowd{tasks, 1}
		},
		"a join of many": func(n int) crowd {
			tasks := numbered("t", n)
			for _, task := range tasks[:n-1] {
				tasks[n-1].After = append(tasks[n-1].After, task.ID)
			}
			return crowd{tasks, n - 1}
		},
		"a row":  func(n int) crowd { return crowd{row("t", n-1, 1, "act"), 1} },
		"layers": func(n int) crowd { return crowd{layered(n, n/20, 3), n / 20} },
	}
}

// layered returns n tasks in layers, each of which waits for some of the layer ahead.
func layered(n, width, edges int) []stint.Task {
	tasks := numbered("t", n)
	for i := width; i < n; i++ {
		ahead := (i/width - 1) * width
		for edge := range edges {
			before := tasks[ahead+(i+edge)%width].ID
			tasks[i].After = append(tasks[i].After, before)
		}
	}
	return tasks
}

// A largeVerb is a verb that changes many tasks, and how many pages it may read for each.
type largeVerb struct {
	pagesMost float64
	aborted   bool // the tasks, beforehand
	call      func(*stint.Store, context.Context, []stint.TaskID) (stint.Affected, error)
}

func largeVerbs() map[string]largeVerb {
	abort := func(
		s *stint.Store, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		return s.AbortTasks(ctx, ids, "")
	}
	return map[string]largeVerb{
		"AbortTasks":              {93, false, abort},
		"DeleteTasks":             {93, false, (*stint.Store).DeleteTasks},
		"DeleteTasks of finished": {90, true, (*stint.Store).DeleteTasks},
		"RetryTasks":              {85, true, (*stint.Store).RetryTasks},
	}
}

// Verbs on many tasks read as many pages for each as on few, however the tasks hang together, and
// whether they are named or go with those that are.
// Proves G208.
func TestLargeVerbs_ReadAsMuchForEachOfManyTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const few, many = 1000, 5000
	verbs, crowds := largeVerbs(), largeCrowds()
	names, kinds := slices.Sorted(maps.Keys(verbs)), slices.Sorted(maps.Keys(crowds))
	for _, c := range testrun.Some(
		testrun.Pairs(testrun.Pairs(names, kinds), []bool{true, false})) {
		verb, newCrowd, rootsOnly := verbs[c.A.A], crowds[c.A.B], c.B
		t.Run(fmt.Sprintf("%s/%s/roots=%t", c.A.A, c.A.B, rootsOnly), func(t *testing.T) {
			t.Parallel()
			each := map[int]float64{}
			for _, n := range []int{few, many} {
				crowd := newCrowd(n)
				ids := named(crowd.tasks)
				if rootsOnly {
					ids = ids[:crowd.roots]
				}
				each[n] = pagesOfVerb(t, verb, crowd.tasks, ids) / float64(n)
			}
			t.Logf("%.1f pages for each of %d, %.1f for each of %d",
				each[few], few, each[many], many)
			if each[many] > 1.4*each[few] || each[many] > verb.pagesMost {
				t.Errorf("%.1f pages for each of %d, %.1f for each of %d, want %.0f",
					each[few], few, each[many], many, verb.pagesMost)
			}
		})
	}
}

// pagesOfVerb is how many pages a verb reads on tasks with these IDs, which must change all tasks.
func pagesOfVerb(
	t *testing.T, verb largeVerb, tasks []stint.Task, ids []stint.TaskID,
) float64 {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, tasks...)
	if verb.aborted {
		wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), ids, "")), nil)
	}
	return float64(pages(t, pool, func(store *stint.Store) {
		affected, err := verb.call(store, t.Context(), ids)
		n := len(affected.Tasks) + affected.Others
		if all := len(tasks); err != nil || n != all && (!verb.aborted || n != len(ids)) {
			t.Errorf("it changes %d tasks, %v, want %d", n, err, all)
		}
	}))
}

// What was aborted before, with a task that is aborted now or behind it, is not gone through again,
// however much it is: so a network may be aborted piece by piece, from its end.
// Proves G208.
func TestAbortTasks_PassesOverWhatIsBehindAbortedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, abort := range map[string]func(*stint.Store, []stint.Task) error{
		"AbortTasks": func(store *stint.Store, tasks []stint.Task) error {
			return errOf(store.AbortTasks(t.Context(), named(tasks[:1]), ""))
		},
		"ReturnTask": func(store *stint.Store, _ []stint.Task) error {
			owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
			if err != nil {
				return err
			}
			return store.ReturnTask(t.Context(), owned[0].ID, owned[0].Token, "",
				stint.StatusAborted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const few, many = 10, 1000
			read := map[int]int64{}
			for _, n := range []int{few, many} {
				store, pool := newStoreAndPool(t, stint.Options{})
				tasks := row("t", n, 1, "act")
				insert(t, store, tasks...)
				wantErr(t, "AbortTasks",
					errOf(store.AbortTasks(t.Context(), named(tasks[2:3]), "")), nil)
				read[n] = pages(t, pool, func(store *stint.Store) {
					wantErr(t, name, abort(store, tasks), nil)
				})
				wantState(t, store, stint.StateBlocked, tasks[1].ID) // it was undone
			}
			t.Logf("%d pages with %d tasks behind, %d with %d", read[few], few, read[many], many)
			if read[many] > 2*read[few] {
				t.Errorf("%d pages with %d tasks behind, %d with %d", read[few], few, read[many],
					many)
			}
		})
	}
}
