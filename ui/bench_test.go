package ui_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/ui"
)

var benchTasks = flag.Int("tasks", 100_000, "how many tasks BenchmarkPages shows")

// BenchmarkPages measures how long pages take of a store with many tasks, most of them completed,
// where nobody has looked lately.
func BenchmarkPages(b *testing.B) {
	pool := testdb.New(b)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close(b.Context()) }()
	fillForPages(b, store, *benchTasks)
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	pages := append(pageNames("fail/1"), "tasks?state=ready", "tasks?state=completed",
		"tasks?state=aborted&action=fail", "tasks?action=act7", "tasks?prefix=9",
		"tasks?action=act1&state=ready", "tasks?actor=worker-1", "tasks?age=1h%2B",
		"tasks?key=key77", "action?name=act7")
	for _, page := range pages {
		b.Run("/"+page, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/"+page, nil)
				w := httptest.NewRecorder()
				ui.New(store, ui.Options{}).ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
		})
	}
}

// fillForPages inserts n tasks and more, of 20 actions, and completes all but every hundredth. A
// thousand fail, a tenth has keys, and there is a limit for each key.
func fillForPages(b *testing.B, store *stint.Store, n int) {
	b.Helper()
	ctx := b.Context()
	if err := store.SetLimits(ctx, "act1", stint.Limits{ConcurrencyPerKey: 1}); err != nil {
		b.Fatal(err)
	}
	const batch, callers, fails = 10_000, 4, 1000
	var group errgroup.Group
	for caller := range callers {
		group.Go(func() error {
			for from := caller * batch; from < n; from += callers * batch {
				tasks := make([]stint.Task, 0, batch)
				for i := from; i < min(from+batch, n); i++ {
					task := stint.Task{
						ID:     stint.TaskID(fmt.Sprintf("%d/%d", i%10, i)),
						Action: fmt.Sprint("act", i%20), Body: []byte(`{"customer": 7}`),
					}
					if i%10 == 1 {
						task.Key = fmt.Sprint("key", i)
					}
					tasks = append(tasks, task)
				}
				if err := store.InsertTasks(ctx, tasks); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	var failing []stint.Task
	for i := range fails {
		failing = append(failing, stint.Task{
			ID: stint.TaskID(fmt.Sprint("fail/", i)), Action: "fail", MaxTries: 1,
		})
	}
	if err := store.InsertTasks(ctx, failing); err != nil {
		b.Fatal(err)
	}
	for end := range callers {
		group.Go(func() error { return endForPages(b, store, end, n/callers*99/100) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// endForPages has a worker return so many tasks.
func endForPages(b *testing.B, store *stint.Store, worker, n int) error {
	b.Helper()
	const most = 1000
	actions := []string{"fail"}
	for i := range 20 {
		actions = append(actions, fmt.Sprint("act", i))
	}
	actor := stint.ActorID(fmt.Sprint("worker-", worker))
	for ended := 0; ended < n; {
		owned, err := store.OwnTasks(b.Context(), actor, most, actions, stint.NoExpiry)
		if err != nil || len(owned) == 0 {
			return err
		}
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}
			if task.Action == "fail" {
				returns[i].Code = stint.StatusAborted
				returns[i].Status = fmt.Sprintf("no route to host%d", i%30)
			}
		}
		verdicts, err := store.ReturnTasks(b.Context(), returns)
		if err != nil {
			return err
		}
		for _, verdict := range verdicts {
			if verdict != nil {
				return verdict
			}
		}
		ended += len(owned)
	}
	return nil
}
