package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A fetchVerb fetches tasks.
type fetchVerb struct {
	name string
	own  func(ctx context.Context, store *stint.Store, n int) ([]stint.OwnedTask, error)
}

func fetchVerbs() []fetchVerb {
	actions := []string{"act"}
	return []fetchVerb{
		{"OwnTasks", func(
			ctx context.Context, store *stint.Store, n int,
		) ([]stint.OwnedTask, error) {
			return store.OwnTasks(ctx, "actor", n, actions, time.Hour)
		}},
		{"WaitToOwnTasks", func(
			ctx context.Context, store *stint.Store, n int,
		) ([]stint.OwnedTask, error) {
			return store.WaitToOwnTasks(ctx, "actor", n, actions, time.Hour)
		}},
		{"ReturnAndOwnTasks", func(
			ctx context.Context, store *stint.Store, n int,
		) ([]stint.OwnedTask, error) {
			_, owned, err := store.ReturnAndOwnTasks(ctx, nil, stint.Want{
				Actor: "actor", MaxTasks: n, Actions: actions, Lease: time.Hour,
			})
			return owned, err
		}},
		{"ClaimTasks", func(
			ctx context.Context, store *stint.Store, n int,
		) ([]stint.OwnedTask, error) {
			claim, err := stint.NewClaim(0)
			if err != nil {
				return nil, err
			}
			return store.Remote().ClaimTasks(ctx, claim, "actor", n, actions, time.Hour)
		}},
	}
}

// wide gives the store of c a pool of four open connections.
func (c *cutStore) wide(t *testing.T) {
	t.Helper()
	const conns = 4
	pool := c.proxy.Pool(t, conns)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	})
	insideOf(store).LeaveTriesUnnoted()
	own(t, store, 1) // looks at the schema, and learns of limits
	opened := make([]*pgxpool.Conn, conns)
	for i := range opened {
		opened[i], err = pool.Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
	}
	for _, conn := range opened {
		conn.Release()
	}
	c.Store, c.pool = store, pool
}

// loseAll makes a call, and loses the answer to a statement of it together with all connections
// that there are. While away, new ones are refused.
func (c *cutStore) loseAll(
	t *testing.T, statement string, away bool, call func() error,
) <-chan error {
	t.Helper()
	trap := c.proxy.Hold(pgcut.AtReply, pgcut.Executes(statement))
	done := hold(t, trap, call)
	c.proxy.Refuse(away)
	c.proxy.HangUp()
	return done
}

// A fetch whose answer is lost together with all connections of the pool is delivered all the
// same, also if the server cannot be reached for a while, and costs nobody a try.
// Proves G285.
func TestOwnTasks_AsksUntilItKnowsWhatWasHandedOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	kinds := testrun.Pairs(fetchKinds(), fetchVerbs())
	for _, pair := range testrun.Third(testrun.Pairs(kinds, []bool{false, true}), 1) {
		kind, verb, away := pair.A.A, pair.A.B, pair.B
		t.Run(fmt.Sprintf("%s, %s, away %t", kind.statement, verb.name, away), func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			wantErr(t, "SetLimits", c.truth.SetLimits(t.Context(), "act", kind.limits), nil)
			c.wide(t)
			insert(t, c.truth, withKey("k", "a", "b")...)
			var owned []stint.OwnedTask
			done := c.loseAll(t, kind.statement, away, func() (err error) {
				owned, err = verb.own(t.Context(), c.Store, 2)
				return err
			})
			if away {
				eventually(t, time.Minute, "the pool has noticed", func() bool {
					return c.pool.Stat().TotalConns() == 0
				})
				c.proxy.Refuse(false)
			}
			wantErr(t, verb.name, <-done, nil)
			if len(owned) != 2 || owned[0].Try != 1 {
				t.Fatalf("%s gave %+v, want the first try of two tasks", verb.name, owned)
			}
			c.wantState(t, "after the call", "a in-progress try 1, b in-progress try 1")
		})
	}
}

// What was fetched by a caller who has left while the server was away is given back once it
// answers again, with the tries refunded, and Close waits for that.
// Proves G99, G285.
func TestOwnTasks_GivesBackWhatNobodyLearntOf(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, verb := range fetchVerbs() {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			c.wide(t)
			insert(t, c.truth, stint.Task{ID: "a", Action: "act", MaxTries: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := c.loseAll(t, "own_tasks", true, func() error {
				return errOf(verb.own(ctx, c.Store, 1))
			})
			cancel()
			if err := <-done; err == nil {
				t.Fatalf("%s succeeded without a server", verb.name)
			}
			closed := make(chan error, 1)
			go func() { closed <- c.Close(context.WithoutCancel(t.Context())) }()
			c.wantState(t, "while the server is away", "a in-progress try 1")
			c.proxy.Refuse(false)
			wantErr(t, "Close", <-closed, nil)
			c.wantState(t, "after Close", "a ready")
		})
	}
}

// When all connections of the pool have died, one call fails at most, not as many as there are
// connections.
// Proves G287.
func TestVerbs_FailOnceIfAllConnectionsAreDead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	c.wide(t)
	for round := range 3 {
		c.proxy.HangUp()
		var failed []error
		for range 8 {
			if _, err := c.ListTasks(t.Context(), stint.Filter{}); err != nil {
				failed = append(failed, err)
			}
		}
		if len(failed) > 1 {
			t.Errorf("round %d: %d calls failed: %v", round, len(failed), failed)
		}
		before := c.proxy.RoundTrips()
		for range 8 {
			wantErr(t, "ListTasks", errOf(c.ListTasks(t.Context(), stint.Filter{})), nil)
		}
		if n := c.proxy.RoundTrips() - before; n > 8 {
			t.Errorf("round %d: 8 calls made %d round trips", round, n)
		}
	}
}
