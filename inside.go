package stint

import (
	"context"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// handle gives the packages of this module a store's DB. The alias keeps it out of the API.
type handle = pg.Handle

// inside is what tests of this module may do with a store, by Config.Inside of its DB.
type inside struct{ store *Store }

// ClaimOf returns the part of a token that the tasks of one hand-out share.
func (inside) ClaimOf(id TaskID, token Token) int64 { return int64(token.performance(id).claim) }

// LeaveTriesUnnoted keeps the store from noting tries: a request that comes when it likes.
func (i inside) LeaveTriesUnnoted() { i.store.tries.once.Do(func() {}) }

// RecheckAfter sets after how long the store looks again for capacity, after it has parked tasks.
func (i inside) RecheckAfter(first time.Duration) { i.store.limits.SetRecheckAfter(first) }

// Deliver sets how many bytes of bodies a hand-out delivers, and how many the server sends at once.
func (i inside) Deliver(handOut, piece int) {
	i.store.handOutBytes, i.store.pieceBytes = handOut, piece
}

// Duty returns a part of maintenance by its name: all of it, and what the background does.
func (i inside) Duty(name string) (all, some func(context.Context) error) {
	for _, duty := range i.store.duties() {
		if duty.name == name {
			return duty.all, duty.some
		}
	}
	return nil, nil
}

// Waiting returns how many tasks are waited for.
func (i inside) Waiting() int {
	i.store.waiting.mutex.Lock()
	defer i.store.waiting.mutex.Unlock()
	return len(i.store.waiting.waiters)
}
