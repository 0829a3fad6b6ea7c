package worker_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// calls returns a handler that completes its tasks, and what it was called with.
func calls() (worker.BatchHandler, <-chan []stint.TaskID) {
	made := make(chan []stint.TaskID, 1000)
	return func(_ context.Context, tasks []*worker.BatchTask) error {
		made <- idsOf(tasks)
		return nil
	}, made
}

func idsOf(tasks []*worker.BatchTask) []stint.TaskID {
	ids := make([]stint.TaskID, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	slices.Sort(ids)
	return ids
}

// keyed are tasks with a key.
func keyed(n int, action, key string) []stint.Task {
	tasks := several(n, action)
	for i := range tasks {
		tasks[i].ID += stint.TaskID("/" + key)
		tasks[i].Key = key
	}
	return tasks
}

// The wish of river#453: WorkMany(ctx, jobs) error, with so many at most.
// Proves G239.
func TestHandleBatch_PerformsManyTasksInOneCall(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	tasks := several(30, "a")
	insert(t, store, tasks...)
	handler, made := calls()
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Size: 10, Wait: time.Hour}, handler)))
	var all []stint.TaskID
	for range 3 {
		call := receive(t, "a call", made)
		if len(call) != 10 {
			t.Errorf("a call was given %d tasks, want 10", len(call))
		}
		all = append(all, call...)
	}
	slices.Sort(all)
	for i, task := range tasks {
		if all[i] != task.ID {
			t.Fatalf("the calls were given %v, want each task once", all)
		}
		if got := finished(t, store, task.ID)[0]; got.State != stint.StateCompleted {
			t.Errorf("got %+v, want it completed", got)
		}
	}
}

// A task does not wait for others for longer than it should.
// Proves G239.
func TestHandleBatch_PerformsFewerAfterAWhile(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, several(3, "a")...)
	handler, made := calls()
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Wait: 10 * time.Millisecond}, handler)))
	for n := 0; n < 3; {
		n += len(receive(t, "a call", made))
	}
}

// The wish of asynq#339: tasks of one user or device together, and not with those of others.
// Proves G239.
func TestHandleBatch_GathersByKey(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, slices.Concat(keyed(3, "a", "ann"), keyed(6, "a", "bob"), several(3, "a"))...)
	of := make(chan map[string]int, 100)
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Size: 3, Wait: time.Hour, ByKey: true},
			func(_ context.Context, tasks []*worker.BatchTask) error {
				keys := map[string]int{}
				for _, task := range tasks {
					keys[task.Key]++
				}
				of <- keys
				return nil
			})))
	got := map[string]int{}
	for range 4 {
		call := receive(t, "a call", of)
		if len(call) != 1 {
			t.Errorf("a call was given tasks of the keys %v", call)
		}
		for key, n := range call {
			got[key] += n
		}
	}
	if got["ann"] != 3 || got["bob"] != 6 || got[""] != 3 {
		t.Errorf("got %v", got)
	}
}

// Proves G239.
func TestHandleBatch_EndsEachTaskInItsOwnWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, by := range map[string]struct {
		rest func() error // how the handler ends, after it has said how five tasks have
		want stint.TaskInfo
	}{
		"completes": {func() error { return nil }, stint.TaskInfo{State: stint.StateCompleted}},
		"fails": {
			func() error { return errors.New("no more") },
			stint.TaskInfo{State: stint.StateScheduled, Status: "no more", Tries: 1},
		},
		"aborts": {
			func() error { return worker.Abort(errors.New("never")) },
			stint.TaskInfo{State: stint.StateAborted, Status: "never", Tries: 1},
		},
		"panics": {
			func() error { panic("at the sixth") },
			stint.TaskInfo{State: stint.StateScheduled, Status: "panic: at the sixth", Tries: 1},
		},
		"exits": {
			func() error { runtime.Goexit(); return nil },
			stint.TaskInfo{
				State: stint.StateScheduled, Status: "handler called runtime.Goexit", Tries: 1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t)
			tasks := several(7, "a")
			insert(t, store, tasks...)
			called := make(chan struct{})
			stop := run(t, newWorker(t, store, worker.Options{
				Retry: worker.Retry{Base: time.Hour}, StopGrace: time.Hour,
			}, worker.HandleBatch("a", worker.Batch{Size: 7, Wait: time.Hour},
				func(_ context.Context, tasks []*worker.BatchTask) error {
					for _, task := range tasks {
						endByNumber(task)
					}
					close(called)
					return by.rest()
				})))
			receive(t, "the call", called)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			wantEndedByNumber(t, store, tasks)
			for i := 5; i < 7; i++ {
				got := info(t, store, tasks[i].ID)
				if got.State != by.want.State || !strings.HasPrefix(got.Status, by.want.Status) {
					t.Errorf("got %+v, want it as the handler ended", got)
				}
			}
		})
	}
}

// wantEndedByNumber checks how the first five of several tasks have ended.
func wantEndedByNumber(t *testing.T, store *stint.Store, tasks []stint.Task) {
	t.Helper()
	ended := func(i int) stint.TaskInfo { return info(t, store, tasks[i].ID) }
	if got := ended(0); got.State != stint.StateCompleted ||
		string(got.Result) != "first" || got.Status != "well" {
		t.Errorf("got %+v, want it completed with its result", got)
	}
	if got := ended(1); got.State != stint.StateScheduled || got.Status != "second" {
		t.Errorf("got %+v, want it to be tried again", got)
	}
	if got := ended(2); got.State != stint.StateAborted || got.Status != "third" {
		t.Errorf("got %+v, want it aborted", got)
	}
	if got := ended(3); got.State != stint.StateScheduled || got.Tries != 0 {
		t.Errorf("got %+v, want it snoozed", got)
	}
	if got := ended(4); got.State != stint.StateCompleted {
		t.Errorf("got %+v, want what was said last", got)
	}
}

// endByNumber ends the first five of several tasks in five ways.
func endByNumber(task *worker.BatchTask) {
	switch task.ID {
	case "a/000":
		task.End(worker.Result{Bytes: []byte("first"), Status: "well"}, nil)
	case "a/001":
		task.End(worker.Result{}, errors.New("second"))
	case "a/002":
		task.End(worker.Result{}, worker.Abort(errors.New("third")))
	case "a/003":
		task.End(worker.Result{}, worker.Snooze(time.Hour))
	case "a/004":
		task.End(worker.Result{}, worker.Abort(nil))
		task.End(worker.Result{}, nil)
	}
}

// Proves G239.
func TestHandleBatch_BeginsTheTimeOutWithTheCall(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	const timeout = 50 * time.Millisecond
	tasks := several(3, "a")
	insert(t, store, tasks[:2]...)
	logger, logged := recorder(t)
	gathered := make(chan error, 1)
	run(t, newWorker(t, store, worker.Options{Logger: logger, Retry: worker.Retry{Base: time.Hour}},
		worker.HandleBatch("a", worker.Batch{Size: 3, Wait: time.Hour},
			func(ctx context.Context, tasks []*worker.BatchTask) error {
				gathered <- ctx.Err()
				<-ctx.Done()
				tasks[0].End(worker.Result{}, nil) // in time after all
				return context.Cause(ctx)
			}, worker.WithTimeout(timeout))))
	logged(t, "task begins")
	logged(t, "task begins")
	<-time.After(2 * timeout) // what has to pass without an effect
	insert(t, store, tasks[2])
	if err := receive(t, "the call", gathered); err != nil {
		t.Errorf("the context of the call had ended before: %v", err)
	}
	failed := logged(t, "handler failed")
	if got := attr(failed, "error").String(); got != worker.ErrTimeout.Error() {
		t.Errorf("the handler failed with %q", got)
	}
	logged(t, "task completed")
}

// Proves G239.
func TestHandleBatch_TellsOfTheTaskThatIsLost(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	tasks := several(3, "a")
	insert(t, store, tasks...)
	entered, lost := make(chan struct{}), make(chan stint.TaskID, 1)
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Size: 3, Wait: time.Hour},
			func(ctx context.Context, tasks []*worker.BatchTask) error {
				close(entered)
				for _, task := range tasks {
					if task.ID != "a/001" {
						continue
					}
					select {
					case <-task.Context().Done():
						lost <- task.ID
					case <-ctx.Done():
					}
				}
				return ctx.Err()
			})))
	receive(t, "the call", entered)
	if _, err := store.AbortTasks(t.Context(), []stint.TaskID{"a/001"}, "no longer"); err != nil {
		t.Fatal(err)
	}
	receive(t, "the loss", lost)
	for _, id := range []stint.TaskID{"a/000", "a/002"} {
		if got := finished(t, store, id)[0]; got.State != stint.StateCompleted {
			t.Errorf("got %+v, want it completed", got)
		}
	}
	if got := info(t, store, "a/001"); got.Status != "no longer" {
		t.Errorf("got %+v, want it aborted", got)
	}
}

// Proves G239.
func TestHandleBatch_IsNotGivenWhatIsLostBefore(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	tasks := several(4, "a")
	insert(t, store, tasks[:2]...)
	logger, logged := recorder(t)
	handler, made := calls()
	run(t, newWorker(t, store, worker.Options{Logger: logger},
		worker.HandleBatch("a", worker.Batch{Size: 3, Wait: time.Hour}, handler)))
	logged(t, "task begins")
	if _, err := store.AbortTasks(t.Context(), []stint.TaskID{"a/000"}, ""); err != nil {
		t.Fatal(err)
	}
	logged(t, "task lost")
	insert(t, store, tasks[2:]...)
	want := []stint.TaskID{"a/001", "a/002", "a/003"}
	if got := receive(t, "the call", made); !slices.Equal(got, want) {
		t.Errorf("the handler was given %v, want what is left", got)
	}
}

// Proves G239, G111.
func TestHandleBatch_PerformsWhatHasGatheredWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, several(2, "a")...)
	logger, logged := recorder(t)
	handler, made := calls()
	stop := run(t, newWorker(t, store, worker.Options{Logger: logger, StopGrace: time.Hour},
		worker.HandleBatch("a", worker.Batch{Size: 3, Wait: time.Hour}, handler)))
	logged(t, "task begins")
	logged(t, "task begins")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2; {
		n += len(receive(t, "a call", made))
	}
	for _, task := range several(2, "a") {
		if got := info(t, store, task.ID); got.State != stint.StateCompleted {
			t.Errorf("got %+v, want it completed", got)
		}
	}
}

// Proves G239.
func TestHandleBatch_ReturnsTasksInItsTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t)
	kept := keepsRows(t, pool)
	tasks := several(4, "a")
	insert(t, store, tasks...)
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Size: 4},
			func(ctx context.Context, tasks []*worker.BatchTask) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					for _, task := range tasks {
						if err := keep(ctx, tx, task.Task); err != nil {
							return err
						}
						if task.ID == "a/003" && task.Try == 1 {
							return errRolledBack
						}
					}
					return nil
				})
			})))
	for _, task := range tasks {
		if got := finished(t, store, task.ID)[0]; got.Status != "in tx" {
			t.Errorf("got %+v, want it completed by the transaction", got)
		}
	}
	if kept() != len(tasks) {
		t.Errorf("got %d rows, want one for each task", kept())
	}
}

// Proves G239.
func TestHandleBatch_KeepsToTheLimitOfTheAction(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	err := store.SetLimits(t.Context(), "a", stint.Limits{Concurrency: 3})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, store, several(9, "a")...)
	handler, made := calls()
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Size: 5, Wait: time.Millisecond}, handler)))
	for n := 0; n < 9; {
		call := receive(t, "a call", made)
		if n += len(call); len(call) > 3 {
			t.Errorf("a call was given %v, above the limit", call)
		}
	}
}

// Proves G239.
func TestHandleBatch_OfOneForPerformNext(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, several(2, "a")...)
	handler, made := calls()
	w := newWorker(t, store, worker.Options{},
		worker.HandleBatch("a", worker.Batch{Wait: time.Hour}, handler))
	for range 2 {
		if got := next(t, w); got.Outcome != worker.OutcomeCompleted {
			t.Errorf("got %+v, want it completed", got)
		}
		if got := receive(t, "the call", made); len(got) != 1 {
			t.Errorf("the handler was given %v, want one task", got)
		}
	}
}

// A call that waits for a task keeps the slots of all its tasks.
// Proves G108.
func TestHandleBatch_WarnsWhereItWaitsForASlot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	insert(t, store, several(3, "parent")...)
	wait := func(ctx context.Context, _ []*worker.BatchTask) error {
		_, err := parent(store, stint.Task{ID: "child", Action: "child"})(ctx, nil)
		return err
	}
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{Concurrency: 3, Logger: logger},
		worker.HandleBatch("parent", worker.Batch{}, wait), worker.Handle("child", done))
	run(t, w)
	if record := logged(t, takenByWaits); attr(record, "waiting").Int64() != 3 {
		t.Errorf("the record is %v, want it to tell of three slots", record)
	}
}

func TestNew_RefusesBatchesThatCannotBe(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	handler, _ := calls()
	few := worker.WithConcurrency(4)
	for name, handler := range map[string]worker.Registration{
		"no handler":        worker.HandleBatch("a", worker.Batch{}, nil),
		"no action":         worker.HandleBatch("", worker.Batch{}, handler),
		"negative size":     worker.HandleBatch("a", worker.Batch{Size: -1}, handler),
		"negative wait":     worker.HandleBatch("a", worker.Batch{Wait: -1}, handler),
		"long wait":         worker.HandleBatch("a", worker.Batch{Wait: 2 * time.Hour}, handler),
		"more than slots":   worker.HandleBatch("a", worker.Batch{Size: 101}, handler),
		"more than its own": worker.HandleBatch("a", worker.Batch{Size: 5}, handler, few),
	} {
		_, err := worker.New(store, worker.Options{}, handler)
		wantArgumentErr(t, name, err)
	}
}

// What was said of a task before a stop counts, although the call goes on for ever.
// Proves G239, G111.
func TestHandleBatch_KeepsWhatWasSaidWhenTheCallHangs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	tasks := several(7, "a")
	for i := range tasks {
		tasks[i].MaxTries = 2
	}
	insert(t, store, tasks...)
	said, hang := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(hang) })
	stop := run(t, newWorker(t, store, worker.Options{Retry: worker.Retry{Base: time.Hour}},
		worker.HandleBatch("a", worker.Batch{Size: 7, Wait: time.Hour},
			func(_ context.Context, tasks []*worker.BatchTask) error {
				hostile := &hostileError{text: func() string { panic("said") }}
				for _, task := range tasks {
					if task.ID < "a/005" {
						task.End(worker.Result{}, hostile) // the last call counts
					}
					endByNumber(task)
				}
				close(said)
				<-hang
				return nil
			})))
	receive(t, "what is said", said)
	wantErr(t, "Run", stop(), worker.ErrStillRunning)
	wantEndedByNumber(t, store, tasks)
	for i := 5; i < 7; i++ {
		got := info(t, store, tasks[i].ID)
		if got.State != stint.StateReady || got.Tries != 0 {
			t.Errorf("got %+v, want that given back of which nothing was said", got)
		}
	}
}
