package stint

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// blockKeys is how many keys a value of the sequence of blocks stands for.
const blockKeys = 1024

// blockAgeMax is for how long a store uses a block, so that keys are about in the order of time.
const blockAgeMax = time.Minute

// A keyring holds the keys that are left of a block, for inserts of few tasks: most of these then
// need not ask the server for keys.
type keyring struct {
	mutex sync.Mutex
	next  int64
	left  int
	since time.Time
}

// take returns n consecutive keys, if there are as many left.
func (k *keyring) take(n int) ([]int64, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.left < n || time.Since(k.since) > blockAgeMax {
		return nil, false
	}
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = k.next + int64(i)
	}
	k.next += int64(n)
	k.left -= n
	return keys, true
}

// refill replaces the keys that are left by a new block.
func (k *keyring) refill(block int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.next, k.left = block, blockKeys
	k.since = time.Now() //nolint:forbidigo // how long for this process
}

// discard forgets the keys that are left.
func (k *keyring) discard() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.left = 0
}

// keysForFew returns n consecutive keys of one block.
func (s *Store) keysForFew(ctx context.Context, n int) ([]int64, error) {
	for {
		if keys, ok := s.keys.take(n); ok {
			return keys, nil
		}
		blocks, err := s.allocateBlocks(ctx, 1)
		if err != nil {
			return nil, err
		}
		s.keys.refill(blocks[0])
	}
}

// keysForMany returns keys for n tasks, in blocks. No span needs to cross the border of a block.
func (s *Store) keysForMany(ctx context.Context, n int) ([]int64, error) {
	blocks, err := s.allocateBlocks(ctx, (n+spanTasksMax-1)/spanTasksMax)
	if err != nil {
		return nil, err
	}
	s.keys.discard() // so that later inserts get greater keys
	keys := make([]int64, n)
	for place := range keys {
		keys[place] = blocks[place/spanTasksMax] + int64(place%spanTasksMax)
	}
	return keys, nil
}

func (s *Store) allocateBlocks(ctx context.Context, n int) ([]int64, error) {
	var blocks []int64
	steps := []step{{
		name: "allocate_blocks", args: []any{n},
		read: func(rows pgx.Rows) error {
			var err error
			blocks, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	}}
	if s.durability == Opportunistic && !s.callersTx {
		steps = append(steps, step{name: "commit_late"})
	}
	return blocks, s.run(ctx, steps...)
}
