package stint

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// askedEvery is how often a store notes that it asks for an action.
const askedEvery = 30 * time.Second

// askedActions are the actions that a store asks for, each with the time when the store last noted
// it.
type askedActions struct {
	mutex sync.Mutex
	at    map[string]time.Time
}

// unnoted returns, sorted, the actions for which the store must note that it asks for them. In the
// caller's transaction it returns none: other stores would have to wait for the end of that
// transaction.
func (s *Store) unnoted(actions []string) []string {
	if s.db.InTx() {
		return nil
	}
	s.asked.mutex.Lock()
	defer s.asked.mutex.Unlock()
	now := time.Now() //nolint:forbidigo // a pause of this process, no time in the store
	var unnoted []string
	for _, action := range actions {
		if at, ok := s.asked.at[action]; !ok || now.Sub(at) > askedEvery {
			unnoted = append(unnoted, action)
		}
	}
	if len(unnoted) == 0 {
		return nil
	}
	if s.asked.at == nil || len(s.asked.at) > actionsMax { // callers may make up ever new actions
		s.asked.at = map[string]time.Time{}
	}
	for _, action := range unnoted {
		s.asked.at[action] = now
	}
	slices.Sort(unnoted)
	return slices.Compact(unnoted)
}

// noteTriesEvery is how often a store adds what it has handed out to the counts of all stores.
const noteTriesEvery = time.Second

// tries counts, by action, the hand-outs of a store that are not yet noted.
type tries struct {
	mutex  sync.Mutex
	once   sync.Once
	counts map[string]tryCount
}

// A tryCount counts hand-outs, and those among them that were not a task's first.
type tryCount struct{ tries, retries int64 }

func (t *tries) add(action string, n tryCount) {
	if t.counts == nil {
		t.counts = map[string]tryCount{}
	}
	sum := t.counts[action]
	t.counts[action] = tryCount{sum.tries + n.tries, sum.retries + n.retries}
}

// countTries counts the tasks that were handed out, and makes sure that the counts are noted soon.
func (s *Store) countTries(rows []ownedRow) {
	if len(rows) == 0 {
		return
	}
	s.tries.mutex.Lock()
	for i := range rows {
		n := tryCount{tries: 1}
		if rows[i].task.Try > 1 {
			n.retries = 1
		}
		s.tries.add(rows[i].task.Action, n)
	}
	s.tries.mutex.Unlock()
	within := s.on(s.db.Outside().AfterClose())
	s.tries.once.Do(func() { s.db.StartBackground(within.keepNoting) })
}

// keepNoting notes tries until the store is closed. Then it notes the rest, unless that takes long:
// the counts need only be about right.
func (s *Store) keepNoting(ctx context.Context) {
	s.db.RepeatUntil(ctx, "count tries", noteTriesEvery, s.noteTries)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTriesEvery)
	defer cancel()
	if err := s.noteTries(ctx); err != nil {
		s.db.Logger.WarnContext(ctx, "tries were not counted", slog.Any("error", err))
	}
}

// noteTries adds the counts of this store to the counts of all stores. If a call fails, the next
// one adds its counts. If the failed call took effect all the same, they count twice.
func (s *Store) noteTries(ctx context.Context) error {
	s.tries.mutex.Lock()
	counts := s.tries.counts
	s.tries.counts = nil
	s.tries.mutex.Unlock()
	if len(counts) == 0 {
		return nil
	}
	actions := slices.Sorted(maps.Keys(counts))
	tries, retries := make([]int64, len(actions)), make([]int64, len(actions))
	for i, action := range actions {
		tries[i], retries[i] = counts[action].tries, counts[action].retries
	}
	err := s.db.Run(ctx, pg.Step{Name: "note_tries", Args: []any{actions, tries, retries}})
	if err != nil {
		s.tries.mutex.Lock()
		defer s.tries.mutex.Unlock()
		for action, n := range counts {
			s.tries.add(action, n)
		}
	}
	return err
}
