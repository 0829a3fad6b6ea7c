package stint_test

import (
	"math"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// What a task costs the server in bytes of WAL, from insert to the end, is what bounds the speed of
// bulk work. It hardly varies, so it is pinned here: whoever makes it grow shall know.
//
// The test does not run in parallel with others, whose WAL would count too, and takes the best of
// three rounds, since a checkpoint in between makes the next ones dearer.
//
//nolint:paralleltest // as the comment says
func TestCost_WALBytesPerTask(t *testing.T) {
	const n = 10_000
	for name, test := range map[string]struct {
		keep        stint.Retention
		insert, end float64
	}{
		"kept":     {stint.Retention{}, 360, 385},
		"KeepNone": {stint.Retention{Completed: stint.KeepNone}, 360, 290},
	} {
		t.Run(name, func(t *testing.T) {
			store, pool := newStoreAndPool(t, stint.Options{Retention: test.keep})
			insertBest, endBest := math.Inf(1), math.Inf(1)
			for round := range 3 {
				before := walBytes(t, pool)
				insert(t, store, benchTasks(string(rune('a'+round)), n)...)
				inserted := walBytes(t, pool)
				for range n / 1000 {
					returnAll(t, store, 1000)
				}
				ended := walBytes(t, pool)
				insertBest = min(insertBest, float64(inserted-before)/n)
				endBest = min(endBest, float64(ended-inserted)/n)
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

// returnAll owns n tasks at once and completes them at once.
func returnAll(tb testing.TB, store *stint.Store, n int) {
	tb.Helper()
	owned, err := store.OwnTasks(tb.Context(), "actor", n, []string{"bench"}, time.Hour)
	if err != nil || len(owned) != n {
		tb.Fatalf("OwnTasks gave %d tasks, want %d, %v", len(owned), n, err)
	}
	verdicts, err := store.ReturnTasks(tb.Context(), completed(owned))
	if err != nil {
		tb.Fatal(err)
	}
	for _, verdict := range verdicts {
		if verdict != nil {
			tb.Fatal(verdict)
		}
	}
}

func completed(owned []stint.OwnedTask) []stint.Return {
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	}
	return returns
}
