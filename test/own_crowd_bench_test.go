package stint_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// How long the fetch takes that meets many keys at their limit for the first time, and how long
// others wait meanwhile: fetches of the action by another store, of another action, returns of
// tasks of the action; and when a task behind all of these is fetched whose key has room.
//
//	go test -run '^$' -bench OwnTasks_MeetsFullKeys -benchtime 1x ./test
func BenchmarkOwnTasks_MeetsFullKeys(b *testing.B) {
	for name, limits := range map[string]stint.Limits{
		"one a key": {ConcurrencyPerKey: 1}, "ordered": {Ordered: true},
		"fair": {ConcurrencyPerKey: 1, Fair: true},
	} {
		for _, keys := range []int{10_000, 40_000} {
			b.Run(fmt.Sprintf("%s/%d", name, keys), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					store, pool, owned := newFullKeys(b, limits, keys)
					b.StartTimer()
					meetFullKeys(b, store, pool, owned)
				}
			})
		}
	}
}

// newFullKeys returns a store with so many keys that are at their limit, a task of each that waits,
// and behind them one task whose key has room; and the tasks that are owned.
func newFullKeys(
	tb testing.TB, limits stint.Limits, keys int,
) (*stint.Store, *pgxpool.Pool, []stint.OwnedTask) {
	tb.Helper()
	store, pool := newLookingStore(tb, limits)
	insert(tb, store, ofKeys("owned", keys)...)
	var owned []stint.OwnedTask
	for len(owned) < keys {
		owned = append(owned, own(tb, store, 1000)...)
	}
	insert(tb, store, ofKeys("waits", keys)...)
	insert(tb, store, stint.Task{ID: "free", Action: "act", Key: "last"})
	exec(tb, pool, "VACUUM ANALYZE")
	return store, pool, owned
}

// ofKeys returns n tasks, each of a key of its own.
func ofKeys(prefix string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		id := stint.TaskID(fmt.Sprintf("%s%05d", prefix, i))
		tasks[i] = stint.Task{ID: id, Action: "act", Key: fmt.Sprintf("key%05d", i)}
	}
	return tasks
}

// meetFullKeys reports how long calls take while the first fetch meets the keys.
func meetFullKeys(
	b *testing.B, store *stint.Store, pool *pgxpool.Pool, owned []stint.OwnedTask,
) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var group sync.WaitGroup
	begun := time.Now()
	longest := func(name string, store *stint.Store, call func(store *stint.Store) error) {
		group.Go(func() {
			most, n := time.Duration(0), 0
			for ; ctx.Err() == nil; n++ {
				at := time.Now()
				if err := call(store); err != nil {
					b.Errorf("%s = %v", name, err)
					return
				}
				most = max(most, time.Since(at))
			}
			b.ReportMetric(float64(most.Microseconds())/1000, name+"-ms")
		})
	}
	other := openStore(b, pool, stint.Options{Maintenance: stint.MaintainNever})
	third := openStore(b, pool, stint.Options{Maintenance: stint.MaintainNever})
	var once sync.Once
	seen := func(got []stint.OwnedTask) {
		for _, task := range got {
			if task.ID == "free" {
				once.Do(func() {
					b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "free-ms")
				})
			}
		}
	}
	longest("same", other, func(store *stint.Store) error {
		got, err := store.OwnTasks(context.WithoutCancel(ctx), "b", 1, []string{"act"}, time.Hour)
		seen(got)
		return err
	})
	longest("else", third, func(store *stint.Store) error {
		_, err := store.OwnTasks(context.WithoutCancel(ctx), "c", 1, []string{"else"}, time.Hour)
		return err
	})
	returned := 0
	longest("return", third, func(store *stint.Store) error {
		task := owned[len(owned)-1-returned] // those behind all others
		returned++
		return store.ReturnTask(context.WithoutCancel(ctx), task.ID, task.Token, "",
			stint.StatusCompleted)
	})
	first, found := time.Duration(0), false
	for !found {
		at := time.Now()
		got := own(b, store, 1)
		first = max(first, time.Since(at))
		seen(got)
		found = len(got) > 0
	}
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
	b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "all-ms")
	cancel()
	group.Wait()
}
