package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

// The environment that makes the test binary a service: where the tasks are, and its grace.
const (
	replicaDatabase = "STINT_TEST_REPLICA_DATABASE"
	replicaGrace    = "STINT_TEST_REPLICA_GRACE"
)

// serveReplica is the process of a service. It says where it is to be found, and stops at a
// SIGTERM.
func serveReplica(database string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	err := func() error {
		grace, err := time.ParseDuration(os.Getenv(replicaGrace))
		if err != nil {
			return err
		}
		pool, err := pgxpool.New(ctx, database)
		if err != nil {
			return err
		}
		defer pool.Close()
		store, err := stint.New(pool, stint.Options{})
		if err != nil {
			return err
		}
		s, err := service.New(pool, store, service.Options{Grace: grace})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			return err
		}
		server := service.NewServer(s)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		fmt.Println(listener.Addr())
		<-ctx.Done()
		ending := context.WithoutCancel(ctx)
		err = errors.Join(server.Shutdown(ending), s.Close(ending), store.Close(ending))
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A replica is a process of a service.
type replica struct {
	command *exec.Cmd
	address string
	said    *bytes.Buffer
}

func startReplica(t *testing.T, pool *pgxpool.Pool, grace time.Duration) *replica {
	t.Helper()
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	r := &replica{
		command: exec.CommandContext(context.WithoutCancel(t.Context()), program),
		said:    &bytes.Buffer{},
	}
	r.command.Env = append(os.Environ(), replicaDatabase+"="+testdb.URL(pool),
		replicaGrace+"="+grace.String())
	r.command.Stderr = r.said
	out, err := r.command.StdoutPipe()
	wantErr(t, "StdoutPipe", err, nil)
	wantErr(t, "Start", r.command.Start(), nil)
	t.Cleanup(func() {
		_ = r.command.Process.Kill() // it may have ended
		_ = r.command.Wait()
		if t.Failed() {
			t.Logf("a service said %s", r.said)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("a service does not begin: %v: %s", err, r.said)
	}
	r.address = strings.TrimSpace(line)
	return r
}

// farAddress is the environment that makes the test binary a remote worker: where its service is.
const farAddress = "STINT_TEST_FAR_ADDRESS"

// ownFar is the process of a remote worker. It says when it owns a task, and then does nothing.
func ownFar(address string) int {
	ctx := context.Background()
	c, err := client.New(address, client.Options{})
	if err == nil {
		err = c.RegisterActor(ctx, "far", []string{"act"})
	}
	if err == nil {
		_, err = c.WaitToOwnTasks(ctx, "far", 1, []string{"act"}, time.Hour)
	}
	fmt.Println("owns", err)
	if err == nil {
		select {} // the client's goroutines go on
	}
	return 1
}

// A process that is killed has its tasks handed on long before their leases expire.
//
//nolint:paralleltest // it keeps the machine busy, and pings of other tests would be late
func TestRegisterActor_HandsOnWhatAKilledProcessOwns(t *testing.T) {
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act"})
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	far := exec.CommandContext(t.Context(), program)
	far.Env = append(os.Environ(), farAddress+"="+r.address)
	out, err := far.StdoutPipe()
	wantErr(t, "StdoutPipe", err, nil)
	wantErr(t, "Start", far.Start(), nil)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "owns <nil>\n" {
		t.Fatalf("the worker says %q, %v", line, err)
	}
	wantErr(t, "Kill", far.Process.Kill(), nil)
	t.Logf("handed on after %v", r.waits(t))
	_ = far.Wait() // which says that it was killed
}

// A fleet are remote workers behind replicas that come and go.
type fleet struct {
	pool     *pgxpool.Pool
	proxy    *testservice.Proxy
	grace    time.Duration
	replicas [2]*replica

	mutex     sync.Mutex
	performed map[stint.TaskID]int
	done      atomic.Int64
	progress  chan struct{} // has something whenever a task was performed
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		pool: testdb.New(t), performed: map[stint.TaskID]int{}, progress: make(chan struct{}, 1),
		grace: time.Hour, // no machine is too slow for that
	}
	if own := os.Getenv(replicaGrace); own != "" {
		var err error
		f.grace, err = time.ParseDuration(own)
		wantErr(t, "ParseDuration", err, nil)
	}
	for i := range f.replicas {
		f.replicas[i] = startReplica(t, f.pool, f.grace)
	}
	f.proxy = testservice.NewProxy(t, f.replicas[0].address)
	f.aim()
	return f
}

func (f *fleet) aim() { f.proxy.Aim(f.replicas[0].address, f.replicas[1].address) }

func (f *fleet) perform(_ context.Context, task *worker.Task) (worker.Result, error) {
	f.mutex.Lock()
	f.performed[task.ID]++
	f.mutex.Unlock()
	<-time.After(3 * time.Millisecond) // the work
	f.done.Add(1)
	select {
	case f.progress <- struct{}{}:
	default:
	}
	return worker.Result{}, nil
}

// work runs workers, each a client of its own, until stop is called.
func (f *fleet) work(t *testing.T, workers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range workers {
		c := testservice.Client(t, f.proxy.Address(), client.Options{})
		w, err := worker.New(c, worker.Options{Concurrency: 2, Lease: 2 * time.Minute},
			worker.Handle("act", f.perform))
		wantErr(t, "New", err, nil)
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// await waits until so many tasks were performed.
func (f *fleet) await(t *testing.T, tasks int) {
	t.Helper()
	late := time.After(patience)
	for f.done.Load() < int64(tasks) {
		select {
		case <-f.progress:
		case <-late:
			t.Fatalf("%d tasks were performed, want %d", f.done.Load(), tasks)
		}
	}
}

// replace ends a replica by a signal, and starts another one.
func (f *fleet) replace(t *testing.T, i int, by os.Signal) {
	t.Helper()
	began := time.Now()
	old := f.replicas[i]
	wantErr(t, "Signal", old.command.Process.Signal(by), nil)
	err := old.command.Wait()
	if by == syscall.SIGTERM && err != nil {
		t.Errorf("a service ends with %v: %s", err, old.said)
	}
	ended := time.Since(began)
	f.replicas[i] = startReplica(t, f.pool, f.grace)
	f.aim()
	t.Logf("after %d tasks: replica ended %v after %v, replaced after %v", f.done.Load(), ended,
		by, time.Since(began))
}

// Replicas are replaced one after the other, and one is killed, while many remote workers perform
// many tasks. Nobody notices: each task is performed once, in its first try.
//
//nolint:paralleltest // it keeps the machine busy, and pings of other tests would be late
func TestWorkers_LoseNothingWhileReplicasAreReplacedAndKilled(t *testing.T) {
	testrun.Long(t)
	workers, n := testrun.Rounds(200), testrun.Rounds(10_000)
	f := newFleet(t)
	store, err := stint.New(f.pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%05d", i)), Action: "act"}
	}
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), tasks), nil)
	began := time.Now()
	stop := f.work(t, workers)
	f.await(t, n/10)
	f.replace(t, 0, syscall.SIGTERM)
	f.await(t, 3*n/10)
	f.replace(t, 1, syscall.SIGTERM)
	f.await(t, 6*n/10)
	f.replace(t, 0, syscall.SIGKILL)
	f.await(t, n)
	t.Logf("%d workers performed %d tasks in %v", workers, n, time.Since(began))
	stop()

	for id, times := range f.performed {
		if times != 1 {
			t.Errorf("%s was performed %d times", id, times)
		}
	}
	var completed, tries int
	err = f.pool.QueryRow(t.Context(), `SELECT count(*), max(tries) FROM stint.finished
		CROSS JOIN LATERAL generate_series(lo, hi) WHERE cause = 0`).Scan(&completed, &tries)
	if err != nil || completed != n || tries != 1 {
		t.Errorf("%d tasks were completed in up to %d tries, %v, want %d in one", completed, tries,
			err, n)
	}
	found, err := store.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
}
