package worker

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// noServer returns a run whose server refuses all connections, and how many it has refused. To be
// called in a bubble.
func noServer(t *testing.T, tasks int) (*run, *atomic.Int64) {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	refused := &atomic.Int64{}
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		refused.Add(1)
		return nil, errors.New("no server")
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	w, err := New(store, Options{Concurrency: tasks, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Handle("a", func(context.Context, *Task) (Result, error) { return Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return newRun(w), refused
}

// performed performs tasks with such leases, all at once.
func performed(t *testing.T, r *run, leases ...time.Duration) {
	t.Helper()
	for i, lease := range leases {
		token := stint.Token{6: 0x80, 8: 0x80, 15: byte(i)}
		owned := stint.OwnedTask{ID: "a", Action: "a", Token: token, Try: 1}
		r.begin(t.Context(), []stint.OwnedTask{owned}, now().Add(lease))
	}
	synctest.Wait()
}

func TestGiveBack_OutageCostsTheSameHoweverManyTasksAreToBeReturned(t *testing.T) {
	t.Parallel()
	for _, tasks := range []int{1, 50} {
		synctest.Test(t, func(t *testing.T) {
			r, refused := noServer(t, tasks)
			performed(t, r, slices.Repeat([]time.Duration{2 * time.Minute}, tasks)...)
			time.Sleep(time.Minute)
			n := refused.Load()
			t.Logf("%d tasks: %d attempts in a minute", tasks, n)
			if n < 12 || n > 100 {
				t.Errorf("%d tasks: %d attempts in a minute, want some 29", tasks, n)
			}
			time.Sleep(time.Minute) // until the leases expire
			synctest.Wait()
			if held := len(r.performances()); held > 0 {
				t.Errorf("%d of %d tasks are held behind their leases", held, tasks)
			}
			n = refused.Load()
			time.Sleep(time.Minute)
			if m := refused.Load(); m != n {
				t.Errorf("%d attempts with nothing to return", m-n)
			}
		})
	}
}

func TestGiveBack_InAnOutageEndsWithEachLeaseAndWithThePatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := noServer(t, 3)
		performed(t, r, 10*time.Second, time.Minute, time.Hour)
		for i, passes := range []time.Duration{9 * time.Second, time.Second, 50 * time.Second} {
			time.Sleep(passes)
			synctest.Wait()
			if held := len(r.performances()); held != 3-i {
				t.Errorf("%d tasks held, want %d", held, 3-i)
			}
		}
		close(r.stopped)
		r.performing.Wait()
	})
}

func TestReturning_LetsOneProbeAServerThatIsAwayAndAllGoWhenItIsBack(t *testing.T) {
	t.Parallel()
	g := newReturning()
	first, second := returnOf(0), returnOf(0)
	g.underWay = 2
	if !g.suspend([]*performance{first}) || g.suspend([]*performance{second}) {
		t.Error("want the first of two goroutines to probe, and no other")
	}
	if g.join(returnOf(0)) {
		t.Error("one that ends in an outage is tried by itself")
	}
	for _, want := range []*performance{first, second} {
		probe := g.probe()
		if len(probe) != 1 || probe[0] != want {
			t.Errorf("got %v, want one, each in its turn", probe)
		}
		g.wait(probe)
	}
	g.resume()
	if n := len(g.next()); n != 3 {
		t.Errorf("%d go together, want all", n)
	}
	if n := len(g.next()); n != 0 || !g.join(returnOf(0)) {
		t.Error("want it as before the outage")
	}
}
