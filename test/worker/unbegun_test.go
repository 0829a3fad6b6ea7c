package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// shortThenLong is a handler that takes a millisecond until long is set, and then an hour.
func shortThenLong(long *atomic.Bool) worker.Handler {
	return func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
		takes := time.Millisecond
		if long.Load() {
			takes = time.Hour
		}
		select {
		case <-time.After(takes):
			return worker.Result{}, nil
		case <-ctx.Done():
			return worker.Result{}, context.Cause(ctx)
		}
	}
}

func isRelease(returns []stint.Return) bool {
	return returns[0].Release && returns[0].Status == ""
}

// ownsAhead runs a worker with four slots until it owns tasks that have no slot.
func ownsAhead(t *testing.T, q *paperQueue, options worker.Options) (stop func() error) {
	t.Helper()
	var long atomic.Bool
	options.Concurrency = 4
	stop = paperWorker(t, q, options, worker.Handle("a", shortThenLong(&long)))
	time.Sleep(200*time.Millisecond + 500*time.Microsecond)
	synctest.Wait()
	long.Store(true)
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	if n := q.inProgress(); n <= 4 {
		t.Fatalf("the worker owns %d tasks, want more than it has slots", n)
	}
	return stop
}

// What was owned ahead is given back however often the attempts fail: at once, late or not at all.
// Its leases last meanwhile, also where that takes longer than a lease.
// Proves G104, G290.
func TestWorker_GivesBackWhatHasNotBegunUntilThatIsKnown(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		lasts time.Duration
		fails func(ctx context.Context) error
	}{
		"cut once":   {0, func(context.Context) error { return errCut }},
		"cut 300 ms": {300 * time.Millisecond, func(context.Context) error { return errCut }},
		"stall 8 s": {8 * time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		"locked for two minutes": {2 * time.Minute, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newPaperQueue(paperTasks(10_000, "a", 25)...)
				var failed atomic.Int64
				var since time.Time
				q.fails = func(ctx context.Context, returns []stint.Return) error {
					if !isRelease(returns) {
						return nil
					}
					if failed.Add(1) == 1 {
						since = bubbleNow()
					} else if time.Since(since) > outage.lasts {
						return nil
					}
					return outage.fails(ctx)
				}
				stop := ownsAhead(t, q, worker.Options{})
				time.Sleep(outage.lasts + 10*time.Second)
				synctest.Wait()
				if failed.Load() == 0 || len(q.released) == 0 || q.inProgress() != 4 {
					t.Errorf("%d attempts, %d given back, %d in progress, want those of the slots",
						failed.Load(), len(q.released), q.inProgress())
				}
				if outage.lasts > time.Minute && len(q.extended) <= 4 {
					t.Error("the leases of what is to be given back were not extended")
				}
				for _, task := range q.ready {
					if task.Try != 0 {
						t.Errorf("%+v has lost a try unbegun", task)
					}
				}
				_ = stop()
			})
		})
	}
}

// Proves G111, G290.
func TestRun_LeavesNothingThatHasNotBegunInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPaperQueue(paperTasks(10_000, "a", 25)...)
		var until time.Time
		q.fails = func(context.Context, []stint.Return) error {
			if bubbleNow().Before(until) {
				return errCut
			}
			return nil
		}
		stop := ownsAhead(t, q, worker.Options{StopGrace: time.Second})
		until = bubbleNow().Add(300 * time.Millisecond)
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if n := q.inProgress(); n > 0 {
			t.Errorf("%d tasks are in progress after the end of Run", n)
		}
	})
}

// A process that is killed cannot say what had begun, so a task that it owns ahead loses a try, but
// not the last one.
// Proves G291.
func TestWorker_OwnsNoTaskAheadOnItsLastTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := paperTasks(3000, "a", 25)
		for i := 2000; i < 3000; i++ { // first others, then some, then all
			if i >= 2500 || i%10 == 0 {
				tasks[i].MaxTries = 1
			}
		}
		q := newPaperQueue(tasks...)
		begun := make(map[stint.Token]bool)
		var ahead, last int
		var handler worker.Handler = func(
			_ context.Context, task *worker.Task,
		) (worker.Result, error) {
			q.mutex.Lock()
			begun[task.Token] = true
			q.mutex.Unlock()
			time.Sleep(time.Millisecond)
			q.mutex.Lock()
			defer q.mutex.Unlock()
			for token, owned := range q.owned {
				if !begun[token] && q.handed[token].Before(bubbleNow()) {
					ahead++
					if owned.MaxTries == 1 {
						last++
					}
				}
			}
			return worker.Result{}, nil
		}
		stop := paperWorker(t, q, worker.Options{Concurrency: 4}, worker.Handle("a", handler))
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(q.ended) != len(tasks) {
			t.Errorf("%d tasks have ended, want %d", len(q.ended), len(tasks))
		}
		if ahead == 0 || last > 0 {
			t.Errorf("%d tasks were owned ahead, %d of them on their last try", ahead, last)
		}
	})
}

// The promise of 50 ms is about when the call begins: how long it takes is the server's.
// Proves G104.
func TestWorker_GivesBackAfter50MsWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPaperQueue(paperTasks(10_000, "a", 25)...)
		var calls int
		q.fails = func(_ context.Context, returns []stint.Return) error {
			if !isRelease(returns) {
				return nil
			}
			for _, r := range returns {
				calls++
				q.mutex.Lock()
				took := bubbleNow().Sub(q.handed[r.Token])
				q.mutex.Unlock()
				if took < 50*time.Millisecond || took > 51*time.Millisecond {
					t.Errorf("%s was given back after %v, want 50 ms", r.ID, took)
				}
			}
			return nil
		}
		stop := ownsAhead(t, q, worker.Options{})
		time.Sleep(time.Second)
		if calls == 0 {
			t.Error("nothing was given back")
		}
		_ = stop()
	})
}

// Whatever a worker asks of a server that answers nothing, it stops in time.
// Proves G109, G111.
func TestRun_EndsInTimeBesideASilentServer(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	for name, c := range map[string]struct {
		tasks   int
		takes   time.Duration // a handler
		ignores bool          // its context
		most    time.Duration
	}{
		"idle":                {0, 0, false, 7 * time.Second}, // or as long as others
		"tasks to return":     {10_000, time.Millisecond, false, grace + 6*time.Second},
		"handlers in grace":   {4, 3 * time.Second, false, grace + 6*time.Second},
		"handlers that hang":  {4, time.Hour, true, grace + 6*time.Second},
		"handlers of a while": {10_000, 40 * time.Millisecond, false, grace + 6*time.Second},
	} {
		for _, slow := range []time.Duration{0, time.Minute} {
			t.Run(name+" "+slow.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					q := newPaperQueue(paperTasks(c.tasks, "a", 25)...)
					q.slow = slow
					stop := paperWorker(t, q, worker.Options{Concurrency: 4, StopGrace: grace},
						worker.Handle("a", func(
							ctx context.Context, _ *worker.Task,
						) (worker.Result, error) {
							if c.ignores {
								ctx = context.WithoutCancel(ctx)
							}
							select {
							case <-time.After(c.takes):
								return worker.Result{}, nil
							case <-ctx.Done():
								return worker.Result{}, context.Cause(ctx)
							}
						}))
					time.Sleep(time.Second)
					q.silence(true)
					time.Sleep(2500 * time.Millisecond)
					began := bubbleNow()
					_ = stop()
					took := bubbleNow().Sub(began)
					if slow > 0 {
						c.most = grace + 6*time.Second
					}
					if took > c.most+200*time.Millisecond {
						t.Errorf("Run took %v to end, want %v", took, c.most)
					}
					q.silence(false)
					time.Sleep(2 * time.Hour) // until all has ended
				})
			})
		}
	}
}
