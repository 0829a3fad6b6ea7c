package service

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// smallBytes is the size of messages that are not counted: 1,000 of them are 32 MiB.
	smallBytes = 32 << 10

	// roomMax is how long a call waits for room at most: half of what the clients give an attempt.
	// So the caller is still there when the service begins with the work.
	roomMax = 5 * time.Second
)

// A budget bounds the bytes of all messages that a service holds: a call takes room for its
// request, and for its answer, for which it first gives back that of its request. So nobody waits
// for room who keeps some from others.
type budget struct {
	total, share int64 // of all calls, and of those of a principal

	mutex   sync.Mutex
	held    int64
	by      map[string]int64 // principals, by their names
	waiting []*wanted        // in the order in which they came
}

// A wanted is room for which a call waits.
type wanted struct {
	name  string
	bytes int64
	given chan struct{} // closed when it has it
}

// newBudget returns a budget of which each principal may take half, but never less than the largest
// message; all of it, if all callers are one principal.
func newBudget(total int64, largest int, many bool) *budget {
	share := total
	if many {
		share = min(total, max(total/2, int64(largest))) //nolint:mnd // half
	}
	return &budget{total: total, share: share, by: map[string]int64{}}
}

// take waits for room until ctx ends, or roomMax has passed. More than there is altogether is given
// when nobody else has any.
func (b *budget) take(ctx context.Context, name string, bytes int64) error {
	w := &wanted{name, bytes, make(chan struct{})}
	b.mutex.Lock()
	b.waiting = append(b.waiting, w)
	b.give()
	b.mutex.Unlock()
	timer := time.NewTimer(roomMax)
	defer timer.Stop()
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 { // it was given at this moment
		return nil
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.give() // to those behind it
	refusal := errLimited("or others hold too many bytes of messages")
	refusal.Meta().Set("Retry-After", "1")
	return cmp.Or(ctx.Err(), error(refusal))
}

// give gives room to those that wait, in turn: whoever needs much is not passed over for ever. But
// nobody waits for a principal that has its share.
func (b *budget) give() {
	full := false
	b.waiting = slices.DeleteFunc(b.waiting, func(w *wanted) bool {
		of := b.by[w.name]
		if full || of > 0 && of+w.bytes > b.share {
			return false
		}
		if full = b.held > 0 && b.held+w.bytes > b.total; full {
			return false
		}
		b.held += w.bytes
		b.by[w.name] += w.bytes
		close(w.given)
		return true
	})
}

func (b *budget) giveBack(name string, bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.held -= bytes
	if b.by[name] -= bytes; b.by[name] == 0 {
		delete(b.by, name)
	}
	b.give()
}

// A room is what a call has of the budget.
type room struct {
	budget *budget
	name   string

	mutex sync.Mutex
	bytes int64
	over  bool // the call
}

// hold makes the room of a call that of a message. It waits only if it needs more than it has, and
// has none meanwhile.
func (r *room) hold(ctx context.Context, bytes int64) error {
	if r == nil { // of a request that is not counted
		return nil
	}
	if bytes <= smallBytes {
		bytes = 0
	}
	if r.suffices(bytes) {
		return nil
	}
	if err := r.budget.take(ctx, r.name, bytes); err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.over { // a fetch goes on for a moment when its caller has left
		r.budget.giveBack(r.name, bytes)
		return context.Canceled
	}
	r.bytes += bytes
	return nil
}

// suffices gives back what is more than so many bytes; all, if there are fewer.
func (r *room) suffices(bytes int64) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	had, enough := r.bytes, bytes <= r.bytes
	if r.bytes = 0; enough {
		r.bytes = bytes
	}
	if had > r.bytes {
		r.budget.giveBack(r.name, had-r.bytes)
	}
	return enough
}

// leave gives back all, for good.
func (r *room) leave() {
	r.mutex.Lock()
	r.over = true
	r.mutex.Unlock()
	r.suffices(0)
}
