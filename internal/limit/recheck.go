package limit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// A return does not see tasks that are parked while its transaction is open, and whoever parks them
// does not see the return. So the store that parked them checks their keys once more when the
// transactions that were open have ended. What it leaves undone, such as when it is closed, is left
// to maintainers.

// rechecks are the keys to check again.
type rechecks struct {
	mutex   sync.Mutex
	fresh   []Key // since somebody has last asked which transactions are open
	running bool
	first   time.Duration // after how long somebody looks
}

// A recheck is due when none of the transactions is open any more; nil: they are not known yet.
type recheck struct {
	keys []Key
	open []string
}

const (
	// recheckedKeysMax bounds how many keys wait for the next look at which transactions are open,
	// and how many for their end.
	recheckedKeysMax = 10_000

	// recheckFirst is after how long somebody looks. A return takes less, unless its transaction is
	// the caller's.
	recheckFirst = 20 * time.Millisecond
)

// add adds keys, and reports whether somebody has to begin to look.
func (r *rechecks) add(keys []Key) (begins bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.fresh)+len(keys) <= recheckedKeysMax {
		r.fresh = append(r.fresh, keys...)
	}
	begins = !r.running
	r.running = true
	return begins
}

// take returns the keys that were added since, and whether the caller goes on to look, which has
// some left or not.
func (r *rechecks) take(left bool) (fresh []Key, goesOn bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fresh, r.fresh = r.fresh, nil
	r.running = left || len(fresh) > 0
	return fresh, r.running
}

// Recheck unparks tasks of keys for which there is capacity by then: soon, and when the
// transactions have ended that are open at that time.
func (e *Engine) Recheck(parked []Key) {
	if e.rechecks.add(parked) {
		e.DB.StartBackground(e.recheckAll)
	}
}

// SetRecheckAfter sets after how long the first look comes, for tests.
func (e *Engine) SetRecheckAfter(first time.Duration) { e.rechecks.first = first }

func (e *Engine) recheckAll(ctx context.Context) {
	var checks []recheck
	for pause := e.rechecks.first; ; pause = min(2*pause, lookAgainMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		fresh, goesOn := e.rechecks.take(len(checks) > 0)
		if !goesOn {
			return
		}
		if len(fresh) > 0 && keysOf(checks)+len(fresh) <= recheckedKeysMax {
			checks, pause = append(checks, recheck{keys: fresh}), e.rechecks.first
		}
		var err error
		if checks, err = e.recheckDue(ctx, checks); pg.Failed(ctx, e.log, err) {
			checks = nil
		}
	}
}

// keysOf counts the keys of some rechecks.
func keysOf(checks []recheck) (n int) {
	for _, check := range checks {
		n += len(check.keys)
	}
	return n
}

// recheckDue unparks what there is capacity for by now, and returns the rechecks that are not due.
func (e *Engine) recheckDue(ctx context.Context, checks []recheck) ([]recheck, error) {
	open, err := e.openTransactions(ctx, "capacity_writers", nil)
	if err != nil {
		return nil, err
	}
	var due []Key
	var others []recheck
	for _, check := range checks {
		if check.open == nil {
			check.open = open
		}
		check.open = slices.DeleteFunc(slices.Clone(check.open), func(transaction string) bool {
			return !slices.Contains(open, transaction)
		})
		if len(check.open) == 0 {
			due = append(due, check.keys...)
		} else {
			others = append(others, check)
		}
	}
	for part := range slices.Chunk(due, parkedKeysMax) {
		pending := &pg.Notices{}
		if err := e.DB.Run(ctx, e.unpark(part, pending)); err != nil {
			return nil, err
		}
		e.DB.Notify(ctx, pending)
	}
	return others, nil
}
