package stint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func (v *cutVerb) wantAgain(t *testing.T, err error) {
	t.Helper()
	if v.again == nil {
		wantErr(t, "the call repeated", err, nil)
		return
	}
	wantTasks(t, "the call repeated", err, v.again, v.named...)
	if errors.Is(v.again, stint.ErrAlreadyReturned) {
		wantErr(t, "the call repeated", err, stint.ErrInvalidToken)
	}
}

// forEachCut runs claim on the call of every verb whose turn it is. All share a database, one after
// the other.
func forEachCut(
	t *testing.T, turn int,
	claim func(*testing.T, cutVerb, *cutStore, func(context.Context) error),
) {
	t.Helper()
	pool := testdb.New(t)
	verbs := slices.Concat(
		cutInserts(), cutEnsures(), cutDebounces(), cutReturns(), cutOwnerVerbs(), cutOthers(),
		cutMaintenance())
	for _, verb := range testrun.Third(verbs, turn) {
		t.Run(verb.name, func(t *testing.T) {
			emptyCut(t, pool)
			c := newCutStoreOn(t, pool, verb.opts)
			call := verb.given(t, c)
			awaitNotifier(c.Store)
			c.wantState(t, "before the call", verb.before)
			claim(t, verb, c, call)
		})
	}
}

// F6: whichever request of a verb is lost, nothing was done, and the call repeated does it.
// Maintain is more than one transaction; those ahead of the lost request stay done.
// Proves G93.
func TestVerbs_DoNothingIfARequestIsLostAndSucceedAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachCut(t, 0, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		cutThere, done := false, false
		for nth := 1; ; nth++ {
			seen, over := 0, false
			var mutex sync.Mutex
			trap := c.proxy.Cut(pgcut.AtRequest, func(r pgcut.Request) bool {
				mutex.Lock()
				defer mutex.Unlock()
				if over || pgcut.Executes("notify")(r) && !verb.at(r) {
					return false // of the notifier, behind the call
				}
				seen++
				// On a connection that has prepared statements already, a call makes fewer
				// requests: so the one that takes effect is lost when it is first seen.
				lost := seen == nth || verb.at(r) && !cutThere
				cutThere = cutThere || verb.at(r)
				done = done || !lost && verb.at(r)
				return lost
			})
			err := call(t.Context())
			mutex.Lock()
			over = true
			mutex.Unlock()
			if !trap.Sprung() {
				wantErr(t, "the call repeated", err, nil)
				break
			}
			wantLost(t, err)
			want := map[bool]string{false: verb.before, true: verb.after}[done]
			c.wantState(t, fmt.Sprintf("after request %d was lost", nth), want)
		}
		if !cutThere {
			t.Error("the request that takes effect was not among the lost ones")
		}
		c.wantState(t, "after the call", verb.after)
	})
}

// F5: if the reply to the commit is lost, all was done once, and the call repeated tells so.
// Proves G94.
func TestVerbs_RepeatedAfterALostReplyTellThatTheyTookPlace(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachCut(t, 1, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		trap := c.proxy.Cut(pgcut.AtReply, verb.at)
		wantLost(t, call(t.Context()))
		if !trap.Sprung() {
			t.Fatal("nothing was cut")
		}
		c.wantState(t, "after the reply was lost", verb.after)
		for range 2 {
			verb.wantAgain(t, call(t.Context()))
			c.wantState(t, "after the call was repeated", verb.after)
		}
	})
}

// A request that its client has given up may still arrive, even after its repetition.
// Proves G96.
func TestVerbs_ArrivingAfterTheirRepetitionChangeNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachCut(t, 0, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		if verb.many {
			return // its repetition would wait for the locks of the requests before the last
		}
		trap := c.proxy.Hold(pgcut.AtRequest, verb.at)
		done := hold(t, trap, func() error { return call(t.Context()) })
		trap.Abandon()
		wantLost(t, <-done)
		c.wantState(t, "while the request is under way", verb.before)
		wantErr(t, "the call repeated", call(t.Context()), nil)
		c.wantState(t, "after the call was repeated", verb.after)
		trap.Release()
		<-trap.Answered()
		c.wantState(t, "after the request arrived", verb.after)
	})
}

// 57P01: a server that is shut down says so, and that nothing was done.
func TestVerbs_EndedByTheServerSucceedAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachCut(t, 2, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		trap := c.proxy.Hold(pgcut.AtRequest, verb.at)
		done := hold(t, trap, func() error { return call(t.Context()) })
		exec(t, c.truthPool, "SELECT pg_terminate_backend($1)", trap.PID())
		err := <-done
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "57P01" {
			t.Fatalf("the call = %v, want 57P01", err)
		}
		c.wantState(t, "after the session ended", verb.before)
		wantErr(t, "the call repeated", call(t.Context()), nil)
		c.wantState(t, "after the call was repeated", verb.after)
	})
}

// F4: a context that ends ends the call at once, silent though the server may be; the pool is fit
// for use, and nothing is left running.
// Proves G101.
func TestVerbs_EndWithTheirContext(t *testing.T) { //nolint:paralleltest // looks at all goroutines
	testrun.Long(t)
	testdb.New(t) // starts the server, which stays
	leaks := goleak.IgnoreCurrent()
	//nolint:paralleltest // the leaks are looked for behind the loop
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			forEachCut(t, 1+int(at), func(
				t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
			) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				trap := c.proxy.Hold(at, verb.at)
				done := hold(t, trap, func() error { return call(ctx) })
				cancel()
				wantErr(t, "the call cancelled", <-done, context.Canceled)
				if at == pgcut.AtRequest {
					c.wantState(t, "after the call was cancelled", verb.before)
					wantErr(t, "the call repeated", call(t.Context()), nil)
				} else {
					c.wantState(t, "after the call was cancelled", verb.after)
					verb.wantAgain(t, call(t.Context()))
				}
				c.wantState(t, "after the call was repeated", verb.after)
			})
		})
	}
	goleak.VerifyNone(t, leaks)
}
