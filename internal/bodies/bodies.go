// Package bodies says how many bytes of bodies a fetch delivers, and when: nobody can extend a
// lease until its task has come, and lines are slow.
package bodies

import (
	"strings"
	"sync"
	"time"
)

const (
	// MostDefault is how much the bodies of a fetch have together, unless there is only one, or
	// all are short. The rest is given back.
	MostDefault = 8 << 20

	// PieceDefault is how much of a body or a result is sent at once: as long as pieces arrive, the
	// database is not silent.
	PieceDefault = 1 << 20

	// ShortBytes is the size of bodies that come with the fetch, however many there are.
	ShortBytes = 2 << 10

	// Where the caller is asked for room, bodies come ahead of that up to these bounds: 64 tasks
	// with short bodies still take one round trip, and no service fetches more than 1,000.
	roomlessBytes, roomlessShortBytes = 128 << 10, 256

	sizesMax   = 10_000  // lists of actions that are remembered
	learnedMax = 100_000 // tasks; more are never wanted
)

// A Budget is how many bytes of bodies a fetch delivers.
type Budget struct {
	// Limit is how much all bodies have together at most.
	Limit int
	Lease time.Duration
	// Remote says that the tasks go on to somebody far away, and nobody extends their leases until
	// they have come.
	Remote bool
	// Asks says that the caller is asked for room ahead of bodies.
	Asks bool
}

// Most is how much all bodies have together.
func (b Budget) Most() int {
	if b.Remote {
		return min(b.Limit, b.carried())
	}
	return b.Limit
}

// Inline is how much the bodies have together that come with the fetch itself. Half of the whole
// is left for longer ones.
func (b Budget) Inline() int {
	const half = 2
	inline := min(b.Most()/half, b.carried())
	if b.Asks {
		return min(inline, roomlessBytes)
	}
	return inline
}

// Short is the size of bodies that come with the fetch itself, whatever they have together.
func (b Budget) Short() int {
	if b.Asks {
		return roomlessShortBytes
	}
	return ShortBytes
}

// carried is how much a slow line carries in a third of the lease.
func (b Budget) carried() int {
	const part, slow = 3, 256 << 10 // a second
	return int(min(b.Lease, time.Minute).Seconds() * slow / part)
}

// Sizes are how many tasks the last fetches could deliver, where that were fewer than asked for:
// tasks that are fetched by be given back at once cost as much as others.
type Sizes struct {
	mutex sync.Mutex
	tasks map[string]int // by the actions, joined
}

// Most is how many tasks to fetch of so many that are wanted.
func (z *Sizes) Most(actions []string, wanted int) int {
	z.mutex.Lock()
	defer z.mutex.Unlock()
	if most, ok := z.tasks[strings.Join(actions, "\x00")]; ok {
		return min(most, wanted)
	}
	return wanted
}

// Learn takes note of how many tasks were delivered, and how many were not.
func (z *Sizes) Learn(actions []string, delivered, left int) {
	key := strings.Join(actions, "\x00")
	z.mutex.Lock()
	defer z.mutex.Unlock()
	most, ok := z.tasks[key]
	switch {
	case left > 0:
		if z.tasks == nil || len(z.tasks) > sizesMax {
			z.tasks = map[string]int{}
		}
		z.tasks[key] = delivered
	case ok && delivered >= most: // there may be room for more
		if z.tasks[key] = 2 * most; z.tasks[key] > learnedMax {
			delete(z.tasks, key)
		}
	}
}
