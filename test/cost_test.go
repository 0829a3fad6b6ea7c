package stint_test

import (
	"math"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What a task costs the server in bytes of WAL, from insert to the end, is what bounds the speed of
// bulk work. It hardly varies, so it is pinned here: whoever makes it grow shall know.
//
// The test does not run in parallel with others, whose WAL would count too, and takes the best of
// three rounds, since a checkpoint in between makes the next ones dearer.
//
// Proves L7, G237.
//
//nolint:paralleltest // as the comment says
func TestCost_WALBytesPerTask(t *testing.T) {
	testrun.Long(t)
	const n = 10_000
	for name, test := range map[string]struct {
		keep        stint.Retention
		headers     map[string]string
		insert, end float64
	}{
		"kept":     {stint.Retention{}, nil, 360, 5},
		"KeepNone": {stint.Retention{Completed: stint.KeepNone}, nil, 360, 65},
		"with a trace": {stint.Retention{}, map[string]string{
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}, 450, 5},
	} {
		t.Run(name, func(t *testing.T) {
			store, pool := newStoreAndPool(t, stint.Options{Retention: test.keep})
			insertBest, endBest := math.Inf(1), math.Inf(1)
			for round := range 3 {
				tasks := benchTasks(string(rune('a'+round)), n)
				for i := range tasks {
					tasks[i].Headers = test.headers
				}
				before := testdb.WALBytes(t, pool)
				insert(t, store, tasks...)
				inserted := testdb.WALBytes(t, pool)
				for range n / 1000 {
					returnAll(t, store, 1000)
				}
				ended := testdb.WALBytes(t, pool)
				insertBest = min(insertBest, float64(inserted-before)/n)
				endBest = min(endBest, float64(ended-inserted)/n)
				if insertBest <= test.insert && endBest <= test.end {
					break // the others are for a checkpoint in between
				}
			}
			t.Logf("insert %.0f, own and return %.0f bytes of WAL per task", insertBest, endBest)
			if insertBest > test.insert {
				t.Errorf("an insert writes %.0f bytes of WAL, want at most %.0f",
					insertBest, test.insert)
			}
			if endBest > test.end {
				t.Errorf("own and return write %.0f bytes of WAL, want at most %.0f",
					endBest, test.end)
			}
		})
	}
}

// A round trip is what a call costs at least, wherever the database is far away. The first calls of
// each kind prepare their statements, so the third is counted.
// Proves G158, L7.
func TestCost_RoundTripsPerCall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, durability := range map[string]stint.Durability{
		"strict": stint.Strict, "opportunistic": stint.Opportunistic,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRoundTrips(t, newCutStore(t, stint.Options{Durability: durability}))
		})
	}
}

func wantRoundTrips(t *testing.T, c *cutStore) {
	t.Helper()
	want := map[string]int{
		"InsertTasks of few":  1,
		"InsertTasks of many": 6, // begin, keys, two COPYs, commit, and the notification behind it
		"EnsureTasks of few":  1,
		"EnsureTasks of many": 9, // as InsertTasks, behind a look, in a savepoint
		"OwnTasks":            1,
		"OwnTasks of nothing": 2,
		"Extend":              1,
		"SetStatus":           1,
		"ReturnTask":          1,
		"ReturnTasks":         1,
		"ReturnAndOwnTasks":   1,
		"RetryTasks":          9, // of which most look at the tasks around
		"GetTasks":            1,
		"ListTasks":           2, // which tasks, and what of them
	}
	countRoundTrips(t, c, "warm up ")
	countRoundTrips(t, c, "warm up again ") // with tasks that share a span
	for name, got := range countRoundTrips(t, c, "counted ") {
		if got != want[name] {
			t.Errorf("%s takes %d round trips, want %d", name, got, want[name])
		}
	}
}

func countRoundTrips(t *testing.T, c *cutStore, prefix string) map[string]int {
	t.Helper()
	ctx := t.Context()
	counted := map[string]int{}
	count := func(name string, call func() error) {
		t.Helper()
		before := c.proxy.RoundTrips()
		if err := call(); err != nil {
			t.Fatalf("%s = %v", name, err)
		}
		awaitNotifier(c.Store)
		counted[name] = c.proxy.RoundTrips() - before
	}
	own := func(action string) (owned []stint.OwnedTask, err error) {
		return c.OwnTasks(ctx, "actor", 50, []string{action}, time.Hour)
	}
	var owned []stint.OwnedTask
	insert(t, c.Store, stint.Task{ID: stint.TaskID(prefix), Action: "act"}) // takes keys
	awaitNotifier(c.Store)
	count("InsertTasks of few", func() error { return c.InsertTasks(ctx, numbered(prefix, 64)) })
	insert(t, c.truth, numbered(prefix+"there ", 30)...)
	count("EnsureTasks of few", func() error {
		return errOf(c.EnsureTasks(ctx, numbered(prefix+"there ", 60)))
	})
	count("InsertTasks of many", func() error {
		return c.InsertTasks(ctx, numbered(prefix+"many ", 5000))
	})
	count("EnsureTasks of many", func() error {
		return errOf(c.EnsureTasks(ctx, numbered(prefix+"there ", 5000)))
	})
	count("OwnTasks", func() (err error) {
		owned, err = own("act")
		return err
	})
	count("OwnTasks of nothing", func() error {
		_, err := own("none")
		return err
	})
	count("Extend", func() error {
		_, err := c.ExtendTasksOwnership(ctx, "actor", owned, time.Hour)
		return err
	})
	count("SetStatus", func() error { return c.SetStatus(ctx, owned[0], "half", 0.5) })
	count("ReturnTask", func() error {
		return c.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	})
	count("ReturnAndOwnTasks", func() error {
		_, _, err := c.ReturnAndOwnTasks(ctx, completed(owned[1:3]), stint.Want{
			Actor: "actor", MaxTasks: 2, Actions: []string{"act"}, Lease: time.Hour,
		})
		return err
	})
	count("ReturnTasks", func() error {
		_, err := c.ReturnTasks(ctx, completed(owned[3:]))
		return err
	})
	count("RetryTasks", func() error { return errOf(c.RetryTasks(ctx, idsOf(owned))) })
	count("GetTasks", func() error {
		_, err := c.GetTasks(ctx, idsOf(owned))
		return err
	})
	count("ListTasks", func() error {
		_, err := c.ListTasks(ctx, stint.Filter{})
		return err
	})
	return counted
}
