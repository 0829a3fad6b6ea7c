package worker_test

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// poisonedDatabase is the environment that makes the test binary a worker, and says where the tasks
// are.
const poisonedDatabase = "STINT_TEST_POISONED_DATABASE"

// performPoison is the process of a worker whose handler kills it.
func performPoison(url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	w, err := worker.New(store, worker.Options{}, worker.Handle("poison",
		func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			err := self.Kill()
			<-ctx.Done()
			return worker.Result{}, err
		}))
	if err != nil {
		return err
	}
	return errors.Join(w.Run(ctx), errors.New("it has survived"))
}

// A task that kills the process of its worker kills three, not one for each of its tries.
//
// Proves G330.
func TestWorkers_ThatTaskKillsAreThree(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	w := newWorker(t, store, worker.Options{}, worker.Handle("other", done)) // it maintains
	run(t, w)
	insert(t, store, stint.Task{ID: "a", Action: "poison"})
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	killed := 0
	for ; killed < 5 && info(t, store, "a").State != stint.StateAborted; killed++ {
		command := osexec.CommandContext(t.Context(), program)
		command.Env = append(os.Environ(), poisonedDatabase+"="+testdb.URL(pool))
		command.Stderr = os.Stderr
		late := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		if err := command.Run(); !late.Stop() || command.ProcessState.Exited() {
			t.Fatalf("the worker ends with %v, want it killed by its task", err)
		}
		for info(t, store, "a").State == stint.StateInProgress {
			time.Sleep(time.Millisecond) // until somebody has noticed
		}
	}
	if got := info(t, store, "a").AbortCause; killed != 3 || got != stint.CauseLost {
		t.Errorf("%d workers were killed, and the task has the cause %q", killed, got)
	}
}
