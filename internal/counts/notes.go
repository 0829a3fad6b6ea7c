package counts

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// askedEvery is how often a store notes that it asks for an action, and askedMax of how many
	// it remembers when.
	askedEvery = 30 * time.Second
	askedMax   = 10_000

	// noteEvery is how often a store adds what it has fetched by the counts of all stores.
	noteEvery = time.Second
)

// Notes notes, in the table action_stats, which actions a store asks for, and how many tries of
// each it has fetched.
type Notes struct {
	db *pg.DB

	mutex sync.Mutex
	// asked is when the store last noted that it asks for an action.
	asked map[string]time.Time
	// counts are the fetches that are not yet noted.
	counts map[string]noted
	once   sync.Once
}

// What is noted are fetches, and those among them that were not a task's first.
type noted struct{ tries, retries int64 }

// NewNotes returns notes that are made outside of transactions, even after the DB is closed.
func NewNotes(db *pg.DB) *Notes { return &Notes{db: db.Outside().AfterClose()} }

// Asked returns steps that note that the store asks for actions, if it is time to. In the caller's
// transaction there are none: other stores would have to wait for the end of that transaction.
func (n *Notes) Asked(db *pg.DB, actions []string) []pg.Step {
	if db.InTx() {
		return nil
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	now := time.Now() //nolint:forbidigo // a pause of this process, no time in the store
	var unnoted []string
	for _, action := range actions {
		if at, ok := n.asked[action]; !ok || now.Sub(at) > askedEvery {
			unnoted = append(unnoted, action)
		}
	}
	if len(unnoted) == 0 {
		return nil
	}
	if n.asked == nil || len(n.asked) > askedMax { // callers may make up ever new actions
		n.asked = map[string]time.Time{}
	}
	for _, action := range unnoted {
		n.asked[action] = now
	}
	slices.Sort(unnoted)
	return []pg.Step{{Name: "note_asked", Args: []any{slices.Compact(unnoted)}}}
}

// Count counts a try that was fetched. The counts are noted soon.
func (n *Notes) Count(action string, isRetry bool) {
	n.mutex.Lock()
	one := noted{tries: 1}
	if isRetry {
		one.retries = 1
	}
	n.add(action, one)
	n.mutex.Unlock()
	n.once.Do(func() { n.db.StartBackground(n.keepNoting) })
}

// LeaveUnnoted keeps the counts from being noted, for tests.
func (n *Notes) LeaveUnnoted() { n.once.Do(func() {}) }

// add adds to the counts; the mutex is held.
func (n *Notes) add(action string, more noted) {
	if n.counts == nil {
		n.counts = map[string]noted{}
	}
	sum := n.counts[action]
	n.counts[action] = noted{sum.tries + more.tries, sum.retries + more.retries}
}

// keepNoting notes the counts until the DB is closed. Then it notes the rest, unless that takes
// long: the counts need only be about right.
func (n *Notes) keepNoting(ctx context.Context) {
	n.db.RepeatUntil(ctx, "count tries", noteEvery, n.note)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteEvery)
	defer cancel()
	if err := n.note(ctx); err != nil {
		n.db.Logger.WarnContext(ctx, "tries were not counted", slog.Any("error", err))
	}
}

// note adds the counts of this store to the counts of all stores. If a call fails, the next one
// adds its counts. If the failed call took effect all the same, they count twice.
func (n *Notes) note(ctx context.Context) error {
	n.mutex.Lock()
	counts := n.counts
	n.counts = nil
	n.mutex.Unlock()
	if len(counts) == 0 {
		return nil
	}
	actions := slices.Sorted(maps.Keys(counts))
	tries, retries := make([]int64, len(actions)), make([]int64, len(actions))
	for i, action := range actions {
		tries[i], retries[i] = counts[action].tries, counts[action].retries
	}
	err := n.db.Run(ctx, pg.Step{Name: "note_tries", Args: []any{actions, tries, retries}})
	if err != nil {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		for action, of := range counts {
			n.add(action, of)
		}
	}
	return err
}
