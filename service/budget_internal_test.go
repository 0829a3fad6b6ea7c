package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
)

// However many calls want room, those that have some have no more than there is, those of a
// principal no more than its share, and each gets its turn.
// Proves G137.
func TestBudget_IsNeverExceeded(t *testing.T) {
	t.Parallel()
	const total, calls = 1000 * smallBytes, 300
	b := newBudget(total, 100*smallBytes, true)
	var mutex sync.Mutex
	held, by := int64(0), map[string]int64{}
	count := func(name string, bytes int64) {
		mutex.Lock()
		defer mutex.Unlock()
		held, by[name] = held+bytes, by[name]+bytes
		if held > total || by[name] > b.share {
			t.Errorf("%d bytes are held, %d of them by %s", held, by[name], name)
		}
	}
	var under sync.WaitGroup
	for range calls {
		name := string(rune('a' + rand.N(4)))
		under.Go(func() {
			r := &room{budget: b, name: name}
			for range 5 {
				bytes := (2 + rand.Int64N(400)) * smallBytes
				if err := r.hold(t.Context(), bytes); err != nil {
					t.Errorf("hold = %v", err)
					return
				}
				count(name, bytes)
				count(name, -bytes)
			}
			if err := r.hold(t.Context(), 0); err != nil {
				t.Errorf("hold nothing = %v", err)
			}
		})
	}
	under.Wait()
	if b.held != 0 || len(b.by) != 0 || len(b.waiting) != 0 {
		t.Errorf("%d bytes are held behind all calls, by %v; %d wait", b.held, b.by, len(b.waiting))
	}
}

// A principal that has its share keeps nobody else from room, and whoever waits too long is told to
// come again.
// Proves G137.
func TestBudget_OfOneIsNotThatOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100*smallBytes, 10*smallBytes, true)
		greedy, other := &room{budget: b, name: "greedy"}, &room{budget: b, name: "other"}
		if err := greedy.hold(t.Context(), 50*smallBytes); err != nil {
			t.Fatalf("hold = %v", err)
		}
		began := time.Now()
		var under sync.WaitGroup
		under.Go(func() {
			again := &room{budget: b, name: "greedy"}
			err := again.hold(t.Context(), 2*smallBytes)
			if connect.CodeOf(err) != connect.CodeResourceExhausted ||
				time.Since(began) != roomMax {
				t.Errorf("hold over the share = %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		if err := other.hold(t.Context(), 50*smallBytes); err != nil || time.Since(began) > 0 {
			t.Errorf("hold of another = %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := (&room{budget: b, name: "third"}).hold(ctx, 2*smallBytes)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hold until a deadline = %v", err)
		}
		under.Wait()
	})
}

// Whoever needs much is not passed over by those who need less. When it gives up, they get their
// turn at once. Alone, it gets more than there is.
func TestBudget_GivesRoomInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100*smallBytes, smallBytes, true)
		hold := func(name string, bytes int64, within time.Duration) (*room, error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			r := &room{budget: b, name: name}
			return r, r.hold(ctx, bytes)
		}
		began := time.Now()
		first, err := hold("first", 200*smallBytes, time.Second)
		if err != nil || time.Since(began) > 0 {
			t.Errorf("hold of all and more = %v after %v", err, time.Since(began))
		}
		if err := first.hold(t.Context(), 60*smallBytes); err != nil {
			t.Errorf("hold less = %v", err)
		}
		var under sync.WaitGroup
		under.Go(func() {
			if _, err := hold("much", 50*smallBytes, time.Second); err == nil {
				t.Error("much is held beside what is held")
			}
		})
		synctest.Wait()
		under.Go(func() {
			_, err := hold("little", 30*smallBytes, time.Minute)
			if err != nil || time.Since(began) != time.Second {
				t.Errorf("hold behind much = %v after %v", err, time.Since(began))
			}
		})
		under.Wait()
	})
}
