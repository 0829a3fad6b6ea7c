package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// resident is the memory that a process takes up, as Linux tells it.
func (r *replica) resident(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		return "not known"
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	size, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(size)
}

// transactions counts those that the database has seen.
func transactions(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT xact_commit + xact_rollback FROM pg_stat_database
		WHERE datname = current_database()`).Scan(&n)
	wantErr(t, "count transactions", err, nil)
	return n
}

// A crowd are callers of a service that all wait.
type crowd struct {
	pool    *pgxpool.Pool
	replica *replica
	owners  stintv1connect.WorkerServiceClient
	size    int
	all     sync.WaitGroup
	over    chan struct{} // closed when the service ends
}

// gather has everybody call until the service or the test ends, and again after a while if a
// connection breaks: the two ends are on one machine, which has much to do, and whoever calls again
// at once makes that worse. They come in groups, as workers of many machines do.
func (c *crowd) gather(ctx context.Context, call func(i int) (done bool, err error)) {
	const group = 100
	for i := range c.size {
		if i%group == 0 {
			<-time.After(10 * time.Millisecond)
		}
		c.all.Go(func() {
			for {
				done, err := call(i)
				if done {
					return
				}
				var pause time.Duration
				if err != nil {
					pause = time.Second + rand.N(time.Second)
				}
				select {
				case <-ctx.Done():
					return
				case <-c.over:
					return
				case <-time.After(pause):
				}
			}
		})
	}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	pool := testdb.New(t)
	r := startReplica(t, pool, time.Hour)
	t.Logf("at first the service takes up %s", r.resident(t))
	return &crowd{
		pool: pool, replica: r, size: testrun.Rounds(10_000), over: make(chan struct{}),
		owners: stintv1connect.NewWorkerServiceClient(&http.Client{Transport: newTransport()},
			"http://"+r.address, connect.WithGRPC()),
	}
}

// rest waits until the crowd costs little, and logs it.
func (c *crowd) rest(t *testing.T) {
	t.Helper()
	perSecond, late := c.size, time.Now().Add(patience)
	for perSecond > c.size/50 { // until it is quiet
		if time.Now().After(late) {
			t.Fatalf("%d that wait cost %d transactions a second", c.size, perSecond)
		}
		before := transactions(t, c.pool)
		<-time.After(time.Second)
		perSecond = transactions(t, c.pool) - before
	}
	t.Logf("with %d that wait it takes up %s, and the database sees %d transactions a second",
		c.size, c.replica.resident(t), perSecond)
}

// end ends the service, as a signal does, and waits for all.
func (c *crowd) end(t *testing.T) {
	t.Helper()
	began := time.Now()
	close(c.over)
	wantErr(t, "Signal", c.replica.command.Process.Signal(syscall.SIGTERM), nil)
	if err := c.replica.command.Wait(); err != nil {
		t.Errorf("the service ends with %v: %s", err, c.replica.said)
	}
	c.all.Wait()
	t.Logf("all have ended %v after the signal", time.Since(began))
}

// Ten thousand calls may wait at a service: a new task finds one of them, and a signal ends all.
//
//nolint:paralleltest // it keeps the machine busy, and pings of other tests would be late
func TestService_HoldsManyCallsThatWait(t *testing.T) {
	testrun.Long(t)
	c := newCrowd(t)
	store, err := stint.New(c.pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	defer func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) }()
	owned := make(chan time.Time, c.size)
	began := time.Now()
	c.gather(t.Context(), func(i int) (done bool, err error) {
		answer, err := c.owners.OwnTasks(t.Context(), &stintv1.OwnTasksRequest{
			Actor: fmt.Sprintf("actor-%d", i), Session: 1, Claim: uint64(i+1) << 20, MaxTasks: 1,
			Actions: []string{"act"}, Lease: durationpb.New(time.Hour),
			Wait: durationpb.New(25 * time.Second),
		})
		if len(answer.GetTasks()) > 0 {
			owned <- time.Now()
		}
		return len(answer.GetTasks()) > 0, err
	})
	t.Logf("%d calls were begun after %v", c.size, time.Since(began))
	c.rest(t)
	inserted := time.Now()
	err = store.InsertTasks(t.Context(), []stint.Task{{Action: "act"}})
	wantErr(t, "InsertTasks", err, nil)
	select {
	case at := <-owned:
		t.Logf("a new task was owned %v after its insert", at.Sub(inserted))
	case <-time.After(patience):
		t.Error("nobody owns the new task")
	}
	c.end(t)
}

// So may as many actors show that they live.
//
//nolint:paralleltest // it keeps the machine busy, and pings of other tests would be late
func TestService_HoldsManyStreams(t *testing.T) {
	testrun.Long(t)
	c := newCrowd(t)
	var welcomed sync.WaitGroup
	welcomed.Add(c.size)
	began := time.Now()
	once := make([]sync.Once, c.size)
	var epochs atomic.Int64
	c.gather(t.Context(), func(i int) (done bool, err error) {
		stream, err := c.owners.Attend(t.Context())
		if err == nil {
			err = stream.Send(&stintv1.AttendRequest{Hello: &stintv1.AttendHello{
				Actor: fmt.Sprintf("actor-%d", i), Session: int64(i + 1), Epoch: epochs.Add(1),
				Actions: []string{"act"},
			}})
		}
		for err == nil {
			var answer *stintv1.AttendResponse
			answer, err = stream.Receive()
			if answer.GetWelcome() {
				once[i].Do(welcomed.Done)
			}
		}
		return false, err
	})
	welcomed.Wait()
	t.Logf("%d streams stood after %v", c.size, time.Since(began))
	c.rest(t)
	c.end(t)
}
