//go:build unix

package stint_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// F15: a worker that is frozen past its lease finds its tasks lost, and returns none of them.
// Proves G32.
func TestWorkerProcess_FrozenLosesItsTasksAndLearnsOfIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tasks, lease = 10, time.Second
	pool := testdb.New(t)
	t.Cleanup(func() { checkStore(t, pool) })
	heir := openStore(t, pool, stint.Options{})
	insert(t, heir, numbered("t", tasks)...)
	worker := startWorker(t, pool, "worker", tasks, lease)
	began := time.Now()
	process := worker.command.Process
	wantErr(t, "SIGSTOP", process.Signal(syscall.SIGSTOP), nil)
	owned := awaitAll(t, heir, tasks)
	took := time.Since(began)
	t.Logf("handed on %v after the fetch, the lease is %v", took, lease)
	for _, task := range owned {
		if task.Try != 2 {
			t.Errorf("%s is at try %d", task.ID, task.Try)
		}
	}
	wantErr(t, "SIGCONT", process.Signal(syscall.SIGCONT), nil)
	_, err := fmt.Fprintln(worker.in, "return")
	wantErr(t, "write to the worker", err, nil)
	worker.wantSays(t, fmt.Sprintln("returned", 0, tasks, tasks))
	verdicts, err := heir.ReturnTasks(t.Context(), completed(owned))
	if err := errors.Join(append(verdicts, err)...); err != nil {
		t.Errorf("ReturnTasks = %v", err)
	}
	wantErr(t, "close the input of the worker", worker.in.Close(), nil)
	wantErr(t, "the worker", worker.command.Wait(), nil)
}

// A worker that lives loses nothing, though it is watched.
// Proves G33.
func TestWorkerProcess_AliveKeepsItsTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tasks = 10
	pool := testdb.New(t)
	watcher, spy := watches(t, pool)
	insert(t, watcher, numbered("t", tasks)...)
	worker := startWorker(t, pool, "worker", tasks, 10*time.Minute)
	looksAgain(t, spy)
	// A stopped process keeps its connection, and with it its session.
	wantErr(t, "SIGSTOP", worker.command.Process.Signal(syscall.SIGSTOP), nil)
	looksAgain(t, spy)
	wantErr(t, "SIGCONT", worker.command.Process.Signal(syscall.SIGCONT), nil)
	looksAgain(t, spy)
	actors, err := watcher.ListActors(t.Context())
	if err != nil || len(actors) != 1 || actors[0].Tasks != tasks {
		t.Errorf("ListActors = %v, %v", actors, err)
	}
	_, err = fmt.Fprintln(worker.in, "return")
	wantErr(t, "write to the worker", err, nil)
	infos, err := listTasks(t.Context(), watcher, stint.Filter{
		States: []stint.State{stint.StateInProgress},
	})
	if err != nil {
		t.Errorf("ListTasks = %v, %v", infos, err)
	}
	eventually(t, soon, "all are completed", func() bool {
		return yields[int](t, pool, tasksIn("finished")) == tasks
	})
}
