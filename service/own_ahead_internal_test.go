package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A crowded service has room for one of its tasks, which have a body of 1 MiB each.
type crowded struct {
	*Service

	proxy  *pgcut.Proxy
	reads  atomic.Int64 // of bodies
	client stintv1connect.WorkerServiceClient
}

func newCrowded(t *testing.T, ids ...stint.TaskID) *crowded {
	t.Helper()
	c := &crowded{proxy: pgcut.New(t, testdb.New(t))}
	pool := c.proxy.Pool(t, 8)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	for _, id := range ids {
		err := store.InsertTasks(t.Context(), []stint.Task{
			{ID: id, Action: "act", Body: make([]byte, 1<<20)},
		})
		if err != nil {
			t.Fatalf("InsertTasks = %v", err)
		}
	}
	if c.Service, err = New(pool, store, Options{Limits: Limits{Bytes: 3 << 19}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(c.Service)
	server.Start()
	t.Cleanup(server.Close)
	c.client = stintv1connect.NewWorkerServiceClient(http.DefaultClient, server.URL)
	executes := pgcut.Executes("read_bodies")
	c.proxy.Hold(pgcut.AtRequest, func(r pgcut.Request) bool {
		if executes(r) {
			c.reads.Add(1)
		}
		return false
	})
	return c
}

// own owns a task, and returns how long its body is.
func (c *crowded) own(ctx context.Context, claim uint64, wait time.Duration) (int, error) {
	answer, err := c.client.OwnTasks(ctx, &stintv1.OwnTasksRequest{
		Actor: "actor", Claim: claim, MaxTasks: 1, Actions: []string{"act"},
		Lease: durationpb.New(time.Hour), Wait: durationpb.New(wait),
	})
	bytes := 0
	for _, task := range answer.GetTasks() {
		bytes += len(task.GetBody())
	}
	return bytes, err
}

// await waits until the budget is as it should be.
func (c *crowded) await(t *testing.T, what string, is func(b *budget) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		c.budget.mutex.Lock()
		so := is(c.budget)
		c.budget.mutex.Unlock()
		if so {
			return
		}
		select {
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// Of the calls that fetch large tasks at once, only those read bodies that have room for
// them; the others wait for that, whether they have waited for tasks or not.
// Proves G137.
func TestOwnTasks_ReadsBodiesWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	ids := []stint.TaskID{"a", "b", "c", "d"}
	c := newCrowded(t, ids...)
	trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("read_bodies"))
	ended := make(chan error)
	for i := range ids {
		go func() {
			bytes, err := c.own(t.Context(), uint64(i)+1, time.Duration(i%2)*time.Minute)
			if err == nil && bytes != 1<<20 {
				t.Errorf("a task has %d bytes", bytes)
			}
			ended <- err
		}()
	}
	c.await(t, "others wait for the one that reads", func(b *budget) bool {
		return b.held > 0 && len(b.waiting) == len(ids)-1
	})
	<-trap.Reached()
	if got := c.reads.Load(); got != 1 {
		t.Errorf("%d calls read bodies, though there is room for one", got)
	}
	trap.Release()
	for range ids {
		if err := <-ended; err != nil {
			t.Errorf("OwnTasks = %v", err)
		}
	}
	c.await(t, "nothing is held", func(b *budget) bool { return b.held == 0 })
}

// Whoever leaves while it waits for room leaves neither room nor tasks behind, and so does a wait
// that is over.
// Proves G137.
func TestOwnTasks_WithoutRoomLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrowded(t, "a")
	other := &room{budget: c.budget}
	if err := other.hold(t.Context(), 1<<20); err != nil {
		t.Fatalf("hold = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.own(ctx, 1, 0)
		ended <- err
	}()
	waits := func(b *budget) bool { return len(b.waiting) == 1 }
	c.await(t, "the call waits for room", waits)
	cancel()
	if err := <-ended; err == nil {
		t.Error("OwnTasks was answered, though its caller has left")
	}
	c.await(t, "the call waits no more", func(b *budget) bool { return len(b.waiting) == 0 })
	if bytes, err := c.own(t.Context(), 2, 2*time.Second); bytes > 0 || err != nil {
		t.Errorf("OwnTasks without room = %d bytes, %v", bytes, err)
	}
	other.leave()
	bytes, err := c.own(t.Context(), 3, time.Minute)
	if err != nil || bytes != 1<<20 {
		t.Errorf("OwnTasks with room = %d bytes, %v", bytes, err)
	}
	found, err := c.store.GetTasks(t.Context(), []stint.TaskID{"a"})
	if err != nil || found[0].Tries != 1 {
		t.Errorf("GetTasks = %+v, %v, want one try", found, err)
	}
	c.await(t, "nothing is held", func(b *budget) bool { return b.held == 0 })
}
