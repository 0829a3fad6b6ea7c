// Package numbering gives out the keys of new tasks, from blocks that a sequence of the database
// numbers, and puts them into performance tokens.
package numbering

import (
	"sync"
	"time"
)

// Keys is how many keys a value of the sequence of blocks stands for.
const Keys = 1024

// ageMax is for how long a store uses a block, so that keys are about in the order of time.
const ageMax = time.Minute

// An Allocator holds the keys that are left of a block, for inserts of few tasks: most of these
// then need not ask the server for keys.
type Allocator struct {
	mutex sync.Mutex
	next  int64
	left  int
	since time.Time
}

// Take returns n consecutive keys, if there are as many left.
func (a *Allocator) Take(n int) ([]int64, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.left < n || time.Since(a.since) > ageMax {
		return nil, false
	}
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = a.next + int64(i)
	}
	a.next += int64(n)
	a.left -= n
	return keys, true
}

// Refill replaces the keys that are left by a new block.
func (a *Allocator) Refill(block int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.next, a.left = block, Keys
	a.since = time.Now() //nolint:forbidigo // how long for this process
}

// Discard forgets the keys that are left.
func (a *Allocator) Discard() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.left = 0
}
