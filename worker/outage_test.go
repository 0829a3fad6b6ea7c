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
func noServer(t *testing.T, tasks int) (*execution, *atomic.Int64) {
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
	done := func(context.Context, *Task) (Result, error) { return Result{}, nil }
	w, err := New(store, Options{Concurrency: tasks, Lease: time.Hour}, Handle("a", done))
	if err != nil {
		t.Fatal(err)
	}
	return newExecution(w), refused
}

// performed performs tasks with such leases, all at once.
func performed(t *testing.T, e *execution, leases ...time.Duration) {
	t.Helper()
	for i, lease := range leases {
		token := stint.Token{6: 0x80, 8: 0x80, 15: byte(i)}
		owned := stint.OwnedTask{ID: "a", Action: "a", Token: token, Try: 1}
		e.begin(t.Context(), []stint.OwnedTask{owned}, now().Add(lease))
	}
	synctest.Wait()
}

// Proves G86.
func TestGiveBack_OutageCostsTheSameHoweverManyTasksAreToBeReturned(t *testing.T) {
	t.Parallel()
	for _, tasks := range []int{1, 50} {
		synctest.Test(t, func(t *testing.T) {
			e, refused := noServer(t, tasks)
			performed(t, e, slices.Repeat([]time.Duration{2 * time.Minute}, tasks)...)
			time.Sleep(time.Minute)
			n := refused.Load()
			t.Logf("%d tasks: %d attempts in a minute", tasks, n)
			if n < 12 || n > 100 {
				t.Errorf("%d tasks: %d attempts in a minute, want some 29", tasks, n)
			}
			time.Sleep(time.Minute) // until the leases expire
			synctest.Wait()
			if held := len(e.performances()); held > 0 {
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
		e, _ := noServer(t, 3)
		performed(t, e, 10*time.Second, time.Minute, time.Hour)
		for i, passes := range []time.Duration{9 * time.Second, time.Second, 50 * time.Second} {
			time.Sleep(passes)
			synctest.Wait()
			if held := len(e.performances()); held != 3-i {
				t.Errorf("%d tasks held, want %d", held, 3-i)
			}
		}
		close(e.stopped)
		e.performing.Wait()
	})
}

func TestServerOutage_LetsOneProbeAtATimeAndAllGoWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := noServer(t, 3)
		o := &serverOutage{}
		away := errors.New("away")
		results := make(chan waitResult, 3)
		wait := func() {
			p := &performance{until: now().Add(time.Hour)}
			go func() { results <- o.wait(e, p, away) }()
			synctest.Wait()
		}
		for range 3 {
			wait()
		}
		for range 5 { // each in its turn
			if got := <-results; got != mayProbe || len(results) > 0 {
				t.Fatalf("wait = %v, and %d more; want one to probe", got, len(results))
			}
			if o.current() == nil {
				t.Error("want others to wait, too")
			}
			o.probed(false)
			wait()
		}
		if got := <-results; got != mayProbe {
			t.Fatalf("wait = %v, want one to probe", got)
		}
		o.probed(true)
		for range 2 {
			if got := <-results; got != answered {
				t.Errorf("wait = %v, want the others to go", got)
			}
		}
		if err := o.current(); err != nil {
			t.Errorf("current = %v, want none", err)
		}
	})
}

// If everybody has left, whoever comes next tries at once.
func TestServerOutage_EndsWhenNobodyIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := noServer(t, 2)
		o := &serverOutage{}
		for range 2 {
			p := &performance{until: now().Add(time.Second)}
			go func() {
				for o.wait(e, p, errors.New("away")) == mayProbe {
					o.probed(false)
				}
			}()
		}
		synctest.Wait()
		if o.current() == nil {
			t.Error("want an outage")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := o.current(); err != nil {
			t.Errorf("current = %v, want none", err)
		}
	})
}
