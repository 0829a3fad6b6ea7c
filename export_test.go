package stint

import (
	"context"
	"runtime"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// Statements gives tests the texts of sql/ as the store sends them.
func Statements(schema string) (map[string]string, error) {
	db, err := pg.New(config(nil, Options{Schema: schema}))
	if err != nil {
		return nil, err
	}
	return db.Texts(), nil
}

// SchemaVersion is what the store wants of the migrations.
const SchemaVersion = schemaVersion

// ClaimOf is the part of a token that the tasks of one hand-out share.
func ClaimOf(id TaskID, token Token) int64 { return int64(token.performance(id).claim) }

// AwaitNotifier waits until the store has told all that there is to tell.
func AwaitNotifier(store *Store) {
	for !store.db.ToldAll() {
		runtime.Gosched()
	}
}

// LeaveTriesUnnoted keeps a store from noting tries: a request that comes when it likes.
func LeaveTriesUnnoted(store *Store) { store.tries.once.Do(func() {}) }

// LeaveRoomToOthers keeps a store from looking for room some time after it has parked tasks.
func LeaveRoomToOthers(store *Store) { store.limits.SetRecheckAfter(time.Hour) }

// NewScheduleFirer returns what a store that maintains calls once a second.
func NewScheduleFirer(store *Store) func(context.Context) error {
	return (&scheduleFirer{store: store}).pass
}

// NewPruner returns what a store that maintains calls again and again to prune.
func NewPruner(store *Store) func(context.Context) error { return store.newPruner().keepUp }

// FailFastWalk looks at all tasks with FailFast, FailFastLook at what was aborted lately, which a
// store that maintains does once a second.
func FailFastWalk(ctx context.Context, s *Store) error { return (&failFaster{store: s}).pass(ctx) }
func FailFastLook(ctx context.Context, s *Store) error { return (&failFaster{store: s}).look(ctx) }

// Shorten makes a store deliver so many bytes of bodies in a hand-out, send so many at once, and
// wait so long for a silent database.
func Shorten(s *Store, handOut, piece int, silence time.Duration) {
	s.handOutBytes, s.pieceBytes = handOut, piece
	s.db.SetSilence(silence)
}

// Waiting is how many tasks are waited for.
func Waiting(s *Store) int {
	s.waiting.mutex.Lock()
	defer s.waiting.mutex.Unlock()
	return len(s.waiting.waiters)
}
