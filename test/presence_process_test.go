package stint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The environment that makes the test binary a worker: where the tasks are, who it is, how many it
// owns, and for how long.
const (
	workerDatabase = "STINT_TEST_WORKER_DATABASE"
	workerActor    = "STINT_TEST_WORKER_ACTOR"
	workerTasks    = "STINT_TEST_WORKER_TASKS"
	workerLease    = "STINT_TEST_WORKER_LEASE"
)

// performAsWorker is the process of a worker. It says when it owns its tasks. At each line that it
// reads it returns them and says how many of the returns were accepted and refused, and how many
// contexts had ended because the task was lost.
func performAsWorker(url string) int {
	ctx := context.Background()
	say := func(words ...any) int {
		fmt.Println(words...)
		return 1
	}
	n, nErr := strconv.Atoi(os.Getenv(workerTasks))
	lease, leaseErr := time.ParseDuration(os.Getenv(workerLease))
	pool, poolErr := pgxpool.New(ctx, url)
	if err := errors.Join(nErr, leaseErr, poolErr); err != nil {
		return say("failed", err)
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		return say("failed", err)
	}
	actor := stint.ActorID(os.Getenv(workerActor))
	if err := store.RegisterActor(ctx, actor, []string{"act"}); err != nil {
		return say("failed", err)
	}
	owned, err := store.OwnTasks(ctx, actor, n, []string{"act"}, lease)
	if err != nil {
		return say("failed", err)
	}
	var contexts []context.Context
	for _, task := range owned {
		ctx, _ := store.OwnershipContext(ctx, task)
		contexts = append(contexts, ctx)
	}
	say("owns", len(owned))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		accepted, refused, ended := 0, 0, 0
		verdicts, err := store.ReturnTasks(ctx, completed(owned))
		if err != nil {
			return say("failed", err)
		}
		for i, err := range verdicts {
			switch {
			case err == nil:
				accepted++
			case errors.Is(err, stint.ErrInvalidToken):
				refused++
			}
			select {
			case <-contexts[i].Done():
				if errors.Is(context.Cause(contexts[i]), stint.ErrInvalidToken) {
					ended++
				}
			case <-time.After(soon):
			}
		}
		say("returned", accepted, refused, ended)
	}
	return 0
}

// A workerProcess is a process that owns tasks.
type workerProcess struct {
	command *osexec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startWorker starts a worker and returns when it owns n tasks.
func startWorker(
	tb testing.TB, pool *pgxpool.Pool, actor string, n int, lease time.Duration,
) *workerProcess {
	tb.Helper()
	program, err := os.Executable()
	wantErr(tb, "Executable", err, nil)
	w := &workerProcess{command: osexec.CommandContext(tb.Context(), program)}
	w.command.Env = append(os.Environ(), workerDatabase+"="+testdb.URL(pool),
		workerActor+"="+actor, workerTasks+"="+strconv.Itoa(n), workerLease+"="+lease.String())
	w.command.Stderr = os.Stderr
	w.in, err = w.command.StdinPipe()
	wantErr(tb, "StdinPipe", err, nil)
	out, err := w.command.StdoutPipe()
	wantErr(tb, "StdoutPipe", err, nil)
	w.out = bufio.NewReader(out)
	wantErr(tb, "Start", w.command.Start(), nil)
	tb.Cleanup(func() {
		_ = w.command.Process.Kill()
		_ = w.command.Wait()
	})
	w.wantSays(tb, fmt.Sprintln("owns", n))
	return w
}

func (w *workerProcess) wantSays(tb testing.TB, want string) {
	tb.Helper()
	line, err := ends(tb, "the worker's answer", start(func() (string, error) {
		return w.out.ReadString('\n')
	}))
	if err != nil || line != want {
		tb.Fatalf("the worker says %q, %v, want %q", line, err, want)
	}
}

// Kill -9 of a worker that holds 100 tasks for ten minutes, and all are owned by others long before
// that. BenchmarkWorkerProcess_Killed tells when.
// Proves R15.
func TestWorkerProcess_KilledIsSurvived(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	t.Cleanup(func() { checkStore(t, pool) })
	logDistribution(t, "kill to the next owner of all",
		killWorkers(t, pool, testrun.Rounds(10)))
}

// BenchmarkWorkerProcess_Killed tells how long it takes from the kill -9 of a worker that holds 100
// tasks until others own all of them; five at a time, each in a database of its own.
// Proves R15.
func BenchmarkWorkerProcess_Killed(b *testing.B) {
	const lanes = 5
	var group sync.WaitGroup
	apart := make([][]time.Duration, lanes)
	for i := range apart {
		pool, kills := testdb.New(b), (b.N+i)/lanes
		group.Go(func() { apart[i] = killWorkers(b, pool, kills) })
	}
	group.Wait()
	took := slices.Sorted(slices.Values(slices.Concat(apart...)))
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

// killWorkers kills workers, one after the other, and returns how long it took each time until
// somebody else owned what the worker had.
func killWorkers(tb testing.TB, pool *pgxpool.Pool, kills int) []time.Duration {
	tb.Helper()
	const tasks = 100
	heir := openStore(tb, pool, stint.Options{PollInterval: pollNever})
	took := make([]time.Duration, kills)
	for i := range took {
		insert(tb, heir, numbered(fmt.Sprintf("r%d ", i), tasks)...)
		var err error
		took[i], err = killOne(tb, pool, heir, fmt.Sprint("worker", i), tasks)
		wantErr(tb, "kill", err, nil)
	}
	return took
}

// killOne kills a worker that owns all tasks, and returns how long it took until heir owned them.
func killOne(
	tb testing.TB, pool *pgxpool.Pool, heir *stint.Store, actor string, tasks int,
) (time.Duration, error) {
	tb.Helper()
	worker := startWorker(tb, pool, actor, tasks, 10*time.Minute)
	ctx, cancel := context.WithTimeout(tb.Context(), soon)
	defer cancel()
	awaiting := start(func() (all []stint.OwnedTask, err error) {
		for len(all) < tasks && err == nil {
			var owned []stint.OwnedTask
			owned, err = heir.WaitToOwnTasks(ctx, "heir", tasks, []string{"act"}, time.Hour)
			all = append(all, owned...)
		}
		return all, err
	})
	began := time.Now()
	if err := worker.command.Process.Kill(); err != nil {
		return 0, err
	}
	got := <-awaiting
	took := time.Since(began)
	if got.err != nil {
		return 0, fmt.Errorf("WaitToOwnTasks = %w after %d tasks", got.err, len(got.value))
	}
	verdicts, err := heir.ReturnTasks(ctx, completed(got.value))
	return took, errors.Join(append(verdicts, err)...)
}
