package stint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Maintenance says when a store maintains the schema in the background.
type Maintenance int

const (
	// MaintainWhenOwning maintains once a second from the first call of OwnTasks on: wherever a
	// worker runs, leases expire and deadlines take effect.
	MaintainWhenOwning Maintenance = iota
	// MaintainAlways maintains once a second from New on.
	MaintainAlways
	// MaintainNever leaves it to the other stores on the schema and to [Store.Maintain].
	MaintainNever
)

const (
	maintainEvery = time.Second

	// How often a store looks for empty leases without a deadline, which hurt nobody, and how many
	// of them one transaction drops.
	sweepEvery     = 30 * time.Second
	sweptLeasesMax = 1000
)

// Maintain does all work that is due: it makes scheduled tasks ready and completes spontaneous ones
// whose time has come (R14), hands on the tasks of expired leases and of processes that are gone
// (R15), aborts tasks that have no tries left (R13), whose Deadline has passed (R6), or that only
// aborted tasks need ([Task.FailFast]), inserts the tasks of schedules that are due, and prunes
// finished tasks past their retention (R18).
//
// A store does this in the background unless [Options.Maintenance] says otherwise, so few callers
// need this. Any number of processes may call it at once. The call may be repeated after any
// failure; the work done until then stays done.
func (s *Store) Maintain(ctx context.Context) error {
	if s.tx == nil { // the caller's transaction would keep the locks of sessions
		if _, err := s.checkSessions(ctx, false); err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
	}
	for _, duty := range s.duties() {
		if duty.all == nil {
			continue
		}
		if err := duty.all(ctx); err != nil {
			return fmt.Errorf("maintain: %s: %w", duty.name, err)
		}
	}
	return nil
}

// A duty is a part of maintenance. Maintain does all that is due; the background does some of it,
// every so often.
type duty struct {
	name      string
	every     time.Duration
	all, some func(context.Context) error
}

// duties are the parts of maintenance, in the order of Maintain. Schedules come last, since one
// that fails stays there.
func (s *Store) duties() []duty {
	failed, failedLately := &failFaster{store: s}, &failFaster{store: s}
	room, pruner, dropper := &roomKeeper{store: s}, s.newPruner(), &dropper{store: s}
	fire := (&scheduleFirer{store: s}).pass
	prune := func(ctx context.Context) error {
		_, _, err := pruner.pass(ctx)
		return err
	}
	return []duty{
		{"hand on and end tasks that are due", maintainEvery, s.settleDue, s.settleDue},
		{"abort what only aborted tasks need", maintainEvery, failed.pass, failedLately.look},
		{"come back to what aborted tasks need", sweepEvery, nil, failed.keepUp},
		{"drop empty leases", sweepEvery, s.sweep, s.sweep},
		{"make room below limits", maintainEvery, room.pass, room.keepUp},
		{"prune finished tasks", s.keep.pruneEvery(), prune, pruner.keepUp},
		{"drop what is left of tasks that are gone", sweepEvery, dropper.pass, dropper.keepUp},
		{"insert tasks of schedules", maintainEvery, fire, fire},
	}
}

// sweep drops leases without a deadline whose tasks have all been returned.
func (s *Store) sweep(ctx context.Context) error {
	for swept := int64(sweptLeasesMax); swept == sweptLeasesMax; {
		err := s.run(ctx, step{
			name: "sweep_leases", args: []any{sweptLeasesMax},
			count: func(n int64) { swept = n },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A maintainer calls Maintain in the background.
type maintainer struct {
	store *Store
	when  Maintenance
	once  sync.Once
}

func newMaintainer(store *Store, opts Options) (*maintainer, error) {
	m := &maintainer{store: store, when: opts.Maintenance}
	switch opts.Maintenance {
	case MaintainWhenOwning, MaintainNever:
	case MaintainAlways:
		m.start()
	default:
		return nil, argumentError("Options.Maintenance", "unknown value")
	}
	return m, nil
}

// owning tells that the store is used to own tasks.
func (m *maintainer) owning() {
	if m.when == MaintainWhenOwning {
		m.start()
	}
}

func (m *maintainer) start() {
	m.once.Do(func() {
		for _, duty := range m.store.duties() {
			m.store.repeat(duty.name, duty.every, duty.some)
		}
		m.store.background.start(m.store.watchSessions)
		m.store.watching()
	})
}
