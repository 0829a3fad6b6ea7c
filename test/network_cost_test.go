package stint_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What an edge costs beyond the tasks at its ends: at insert, and at the end of the predecessor,
// where many lead to one task and where each leads to another.
//
//nolint:paralleltest // see TestCost_WALBytesPerTask
func TestCost_WALBytesPerEdge(t *testing.T) {
	testrun.Long(t)
	const n = 10_000
	for name, test := range map[string]struct {
		dependents  int // tasks behind the n
		insert, end float64
	}{
		"fan-in": {20, 175, 10},
		"pairs":  {n, 290, 125},
	} {
		t.Run(name, func(t *testing.T) {
			store, pool := newStoreAndPool(t, stint.Options{})
			insertBest, endBest := math.Inf(1), math.Inf(1)
			for round := range 3 {
				tasks := benchTasks(fmt.Sprint("after", round), n+test.dependents)
				for i := range n {
					behind := &tasks[n+i*test.dependents/n]
					behind.Action = "behind"
					behind.After = append(behind.After, tasks[i].ID)
				}
				before := testdb.WALBytes(t, pool)
				insert(t, store, tasks...)
				inserted := testdb.WALBytes(t, pool)
				for range n / 1000 {
					returnAll(t, store, 1000)
				}
				ended := testdb.WALBytes(t, pool)
				// The tasks themselves: see TestCost_WALBytesPerTask.
				const insertTask, endTask = 345, 4
				insertBest = min(insertBest,
					float64(inserted-before-int64(insertTask*len(tasks)))/n)
				endBest = min(endBest, float64(ended-inserted)/n-endTask)
				if insertBest <= test.insert && endBest <= test.end {
					break // the others are for a checkpoint in between
				}
			}
			t.Logf("an edge adds %.0f bytes of WAL to an insert, %.0f to a return",
				insertBest, endBest)
			if insertBest > test.insert {
				t.Errorf("an edge adds %.0f bytes of WAL to an insert, want at most %.0f",
					insertBest, test.insert)
			}
			if endBest > test.end {
				t.Errorf("an edge adds %.0f bytes of WAL to a return, want at most %.0f",
					endBest, test.end)
			}
		})
	}
}

// A network goes in, and settles as deep as a chord, in the round trip of a call without one.
func TestCost_RoundTripsWithDependencies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	for _, round := range []string{"warm up ", "counted "} {
		count := func(want int, name string, call func() error) {
			t.Helper()
			awaitNotifier(c.Store)
			before := c.proxy.RoundTrips()
			if err := call(); err != nil {
				t.Fatalf("%s = %v", name, err)
			}
			awaitNotifier(c.Store)
			got := c.proxy.RoundTrips() - before
			if round != "warm up " && got != want {
				t.Errorf("%s takes %d round trips, want %d", name, got, want)
			}
		}
		id := func(name string) stint.TaskID { return stint.TaskID(round + name) }
		insert(t, c.Store, after(id("keys")))
		count(1, "InsertTasks of a chord", func() error {
			return c.InsertTasks(t.Context(), []stint.Task{
				after(id("a")), after(id("b")), join(id("j"), id("a"), id("b")),
				after(id("z"), id("j")),
			})
		})
		owned := own(t, c.Store, 3)
		for i, name := range []string{"a task without dependents", "the first", "the last"} {
			want := 1
			if name == "the last" {
				want = 2 // the notification that z is ready follows by itself
			}
			count(want, "ReturnTask of "+name, func() error {
				return c.ReturnTask(
					t.Context(), owned[i].ID, owned[i].Token, "", stint.StatusCompleted)
			})
		}
		wantState(t, c.truth, stint.StateReady, id("z"))
		last := ownOne(t, c.Store)
		count(1, "Inputs", func() error {
			_, err := c.Inputs(t.Context(), last)
			return err
		})
		_, err := c.ReturnTasks(t.Context(), completed([]stint.OwnedTask{last}))
		wantErr(t, "ReturnTasks", err, nil)
		insert(t, c.Store, after(id("x")), after(id("y")))
		count(6, "AddDependencies", func() error {
			return c.AddDependencies(t.Context(),
				[]stint.Dependency{{Predecessor: id("x"), Dependent: id("y")}})
		})
		_ = own(t, c.Store, 1)
	}
}
