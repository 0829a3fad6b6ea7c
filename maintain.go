package stint

import (
	"context"
	"errors"
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
	if err := s.settleDue(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	if err := (&failFaster{store: s}).pass(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	if err := (&roomKeeper{store: s}).pass(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	if _, _, err := s.newPruner().pass(ctx); err != nil {
		return fmt.Errorf("maintain: prune: %w", err)
	}
	if err := (&dropper{store: s}).pass(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	// Last, since a schedule that fails stays there.
	if err := (&scheduleFirer{store: s}).pass(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	return nil
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

// each does several kinds of work one after the other, also if one fails.
func each(work ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for _, do := range work {
			errs = append(errs, do(ctx))
		}
		return errors.Join(errs...)
	}
}

// owning tells that the store is used to own tasks.
func (m *maintainer) owning() {
	if m.when == MaintainWhenOwning {
		m.start()
	}
}

func (m *maintainer) start() {
	m.once.Do(func() {
		m.store.repeat("hand on and end tasks that are due", maintainEvery, m.store.settleDue)
		m.store.repeat("abort what only aborted tasks need", maintainEvery,
			(&failFaster{store: m.store}).look)
		m.store.repeat("drop what is left of tasks that are gone", sweepEvery,
			each((&dropper{store: m.store}).keepUp, (&failFaster{store: m.store}).keepUp))
		m.store.repeat("make room below limits", maintainEvery,
			(&roomKeeper{store: m.store}).keepUp)
		m.store.repeat("insert tasks of schedules", maintainEvery,
			(&scheduleFirer{store: m.store}).pass)
		m.store.repeat("prune finished tasks", m.store.keep.pruneEvery(),
			m.store.newPruner().keepUp)
		m.store.background.start(m.store.watchSessions)
		m.store.watching()
	})
}
