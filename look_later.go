package stint

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// A return does not see tasks that are parked while its transaction is open, and whoever parks them
// does not see the return. So the store that parked them looks once more when the transactions that
// were open have ended. What it leaves undone, such as when it is closed, is left to maintainers.

// laterLooks are the keys to look at again.
type laterLooks struct {
	mutex   sync.Mutex
	fresh   []parkedKey // since somebody has last asked what is open
	running bool
	first   time.Duration // after how long somebody looks
}

// A laterLook is due when none of the transactions is open any more; nil: they are not known yet.
type laterLook struct {
	keys []parkedKey
	open []string
}

const (
	// laterKeysMax bounds how many keys wait for the next look at what is open, and how many for
	// the end of transactions.
	laterKeysMax = 10_000

	// lookLaterFirst is after how long somebody looks. A return takes less, unless its transaction
	// is the caller's.
	lookLaterFirst = 20 * time.Millisecond
)

// add adds keys, and reports whether somebody has to begin to look.
func (l *laterLooks) add(keys []parkedKey) (begins bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.fresh)+len(keys) <= laterKeysMax {
		l.fresh = append(l.fresh, keys...)
	}
	begins = !l.running
	l.running = true
	return begins
}

// take returns the keys that were added since, and whether the caller goes on to look, which has
// some left or not.
func (l *laterLooks) take(left bool) (fresh []parkedKey, goesOn bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fresh, l.fresh = l.fresh, nil
	l.running = left || len(fresh) > 0
	return fresh, l.running
}

// lookLater brings back parked tasks of keys for which there is room by then: soon, and when the
// transactions have ended that are open at that time.
func (s *Store) lookLater(parked []parkedKey) {
	if s.later.add(parked) {
		s.db.StartBackground(s.lookAtAllLater)
	}
}

func (s *Store) lookAtAllLater(ctx context.Context) {
	var looks []laterLook
	for pause := s.later.first; ; pause = min(2*pause, lookAgainMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		fresh, goesOn := s.later.take(len(looks) > 0)
		if !goesOn {
			return
		}
		if len(fresh) > 0 && keysOf(looks)+len(fresh) <= laterKeysMax {
			looks, pause = append(looks, laterLook{keys: fresh}), s.later.first
		}
		var err error
		if looks, err = s.lookAtDue(ctx, looks); pg.Failed(ctx, s.logs.parked, err) {
			looks = nil
		}
	}
}

// keysOf counts the keys of some looks.
func keysOf(looks []laterLook) (n int) {
	for _, look := range looks {
		n += len(look.keys)
	}
	return n
}

// lookAtDue brings back what there is room for by now, and returns the looks that are not due.
func (s *Store) lookAtDue(ctx context.Context, looks []laterLook) ([]laterLook, error) {
	open, err := s.openTransactions(ctx, "room_makers", nil)
	if err != nil {
		return nil, err
	}
	var due []parkedKey
	var others []laterLook
	for _, look := range looks {
		if look.open == nil {
			look.open = open
		}
		look.open = slices.DeleteFunc(slices.Clone(look.open), func(transaction string) bool {
			return !slices.Contains(open, transaction)
		})
		if len(look.open) == 0 {
			due = append(due, look.keys...)
		} else {
			others = append(others, look)
		}
	}
	for part := range slices.Chunk(due, parkedKeysMax) {
		pending := &pg.Notices{}
		if err := s.db.Run(ctx, fillRoom(part, pending)); err != nil {
			return nil, err
		}
		s.db.Notify(ctx, pending)
	}
	return others, nil
}
