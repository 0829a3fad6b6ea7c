package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// interleaved are tasks whose keys take turns.
func interleaved(n, keys int, action string) []stint.OwnedTask {
	tasks := paperTasks(n, action, 25)
	for i := range tasks {
		tasks[i].Key = fmt.Sprint("key", i%keys)
	}
	return tasks
}

// batchesOf returns a handler that takes a while, and the sizes of its calls by now.
func batchesOf(takes time.Duration) (worker.BatchHandler, func() []int) {
	var mutex sync.Mutex
	var made []int
	handler := func(_ context.Context, tasks []*worker.BatchTask) error {
		mutex.Lock()
		made = append(made, len(tasks))
		mutex.Unlock()
		time.Sleep(takes)
		return nil
	}
	return handler, func() []int {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(made)
	}
}

func sum(sizes []int) (n int) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// Where every slot gathers, nothing can join.
// Proves G239, G292.
func TestHandleBatch_DoesNotWaitWhereEverySlotGathers(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]struct {
		all, own int
		keys     int
	}{
		"as many keys as slots":             {10, 0, 10},
		"more keys than slots":              {10, 0, 25},
		"as many keys as the action has":    {100, 10, 10},
		"two slots more than keys":          {12, 0, 10},
		"more keys than the action has one": {100, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newPaperQueue(interleaved(100, options.keys, "a")...)
				handler, made := batchesOf(time.Millisecond)
				var own []worker.HandlerOption
				size := options.all
				if options.own > 0 {
					own, size = append(own, worker.WithConcurrency(options.own)), options.own
				}
				stop := paperWorker(t, q, worker.Options{Concurrency: options.all},
					worker.HandleBatch("a", worker.Batch{
						Size: size, Wait: 2 * time.Second, ByKey: true,
					}, handler, own...))
				time.Sleep(1900 * time.Millisecond)
				synctest.Wait()
				// The last ones have slots to spare, so others might join them.
				if n := sum(made()); n <= 100-size {
					t.Errorf("%d tasks were performed before the first had waited long enough", n)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := sum(made()); n != 100 {
					t.Errorf("%d tasks were performed in all", n)
				}
				_ = stop()
			})
		})
	}
}

// The fullest call begins first, and of those that are equal the oldest.
// Proves G292.
func TestHandleBatch_BeginsTheFullestCallWhereEverySlotGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := interleaved(6, 1, "a")
		for i, key := range []string{"x", "y", "z", "y", "z", "y"} {
			tasks[i].Key = key
		}
		q := newPaperQueue(tasks...)
		var mutex sync.Mutex
		var keys []string
		stop := paperWorker(t, q, worker.Options{Concurrency: 6, StopGrace: 1},
			worker.HandleBatch("a", worker.Batch{Size: 6, Wait: time.Hour, ByKey: true},
				func(ctx context.Context, tasks []*worker.BatchTask) error {
					mutex.Lock()
					keys = append(keys, fmt.Sprint(tasks[0].Key, len(tasks)))
					mutex.Unlock()
					<-ctx.Done()
					return nil
				}))
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"y3", "z2", "x1"}; !slices.Equal(keys, want) {
			t.Errorf("the calls were %v, want %v", keys, want)
		}
		_ = stop()
	})
}

// Tasks of other actions do not wait for those that gather.
// Proves G292.
func TestHandleBatch_HoldsNoSlotThatOthersNeed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ long, own int }{
		"all gather": {0, 5}, "some run for long": {3, 5}, "with slots of its own": {3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				long := c.long
				q := newPaperQueue(append(paperTasks(long, "long", 25),
					interleaved(5-long, 5, "a")...)...)
				handler, made := batchesOf(time.Millisecond)
				urgent := make(chan struct{}, 1)
				stop := paperWorker(t, q, worker.Options{Concurrency: 5, StopGrace: 1},
					worker.HandleBatch("a", worker.Batch{
						Size: c.own, Wait: time.Hour, ByKey: true,
					}, handler,
						worker.WithConcurrency(c.own)),
					worker.Handle("long", func(
						ctx context.Context, _ *worker.Task,
					) (worker.Result, error) {
						<-ctx.Done()
						return worker.Result{}, nil
					}),
					worker.Handle("urgent", func(
						context.Context, *worker.Task,
					) (worker.Result, error) {
						urgent <- struct{}{}
						return worker.Result{}, nil
					}))
				time.Sleep(time.Millisecond)
				q.insert(paperTasks(1, "urgent", 25)...)
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if len(urgent) != 1 {
					t.Errorf("the other task waits behind tasks that gather: %v", made())
				}
				_ = stop()
			})
		})
	}
}

// A worker that is busy with short tasks of another action still gathers.
// Proves G239.
func TestHandleBatch_GathersWhileTheWorkerIsBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tasks []stint.OwnedTask
		short, batched := paperTasks(2000, "short", 25), paperTasks(200, "a", 25)
		for i := range short { // one of ten is for a call
			if tasks = append(tasks, short[i]); i%10 == 0 {
				tasks = append(tasks, batched[i/10])
			}
		}
		q := newPaperQueue(tasks...)
		handler, made := batchesOf(time.Millisecond)
		stop := paperWorker(t, q, worker.Options{Concurrency: 20},
			worker.HandleBatch("a", worker.Batch{Size: 10, Wait: time.Second}, handler),
			worker.Handle("short", func(context.Context, *worker.Task) (worker.Result, error) {
				time.Sleep(5 * time.Millisecond)
				return worker.Result{}, nil
			}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := sum(made()); n != 200 || len(made()) > 25 {
			t.Errorf("%d tasks in %d calls, want 200 in some 20: %v", n, len(made()), made())
		}
		_ = stop()
	})
}
