package worker_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

//nolint:paralleltest // the goroutines of other tests would count
func TestRun_LeavesNoGoroutines(t *testing.T) {
	testrun.Long(t)
	pool := testdb.New(t)
	ignore := goleak.IgnoreCurrent()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", done, worker.WithConcurrency(1)),
		worker.Handle("b", done))
	stop := run(t, w)
	insert(t, store, several(10, "a")...)
	insert(t, store, several(10, "b")...)
	finished(t, store, several(10, "a")[9].ID, several(10, "b")[9].ID)
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	goleak.VerifyNone(t, ignore)
}
