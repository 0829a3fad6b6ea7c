package stint

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/prune"
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
	if !s.db.InTx() { // the caller's transaction would keep the locks of sessions
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

// Prune deletes finished tasks past the retention of this store (R18), as [Store.Maintain] does
// among other things, and returns how many. To prune earlier than the other stores do, make a store
// for the purpose:
//
//	stint.Options{
//		Maintenance: stint.MaintainNever,
//		Retention:   stint.Retention{Completed: time.Hour, Aborted: stint.KeepForever},
//	}
//
// Tasks that somebody may still ask for stay: the predecessors of tasks that have not completed
// and, for an hour, tasks with PostResult. An aborted task keeps its predecessors until it is
// pruned itself, since it may be retried and ask for them.
//
// It works in small transactions, so that nobody waits for it. It prunes nothing while
// [Store.RetryTasks] is under way, nor in a transaction that is stricter than READ COMMITTED, which
// may overlook who asks. If ctx ends or the connection breaks, it returns the error and how many
// tasks are certainly gone; the call may be repeated, and be made concurrently. In the caller's
// transaction it is undone if that rolls back.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	const quiet = true // the retention may be for this once
	pruned, _, err := prune.New(s.db, s.keep, quiet).All(ctx)
	if err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
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
	unparker := limit.NewUnparker(s.limits, s.db)
	pruner := prune.New(s.db, s.keep, false)
	keptTries := cmp.Or(s.triesKept, keptTriesMax) // others may keep tries, and say how many
	orphans := prune.NewOrphans(s.db, keptTries, s.triesAge)
	fire := (&scheduleFirer{store: s}).all
	pruneAll := func(ctx context.Context) error {
		_, _, err := pruner.All(ctx)
		return err
	}
	return []duty{
		{"hand on and end tasks that are due", maintainEvery, s.settleDue, s.settleDue},
		{"abort what only aborted tasks need", maintainEvery, failed.all, failedLately.recent},
		{"come back to what aborted tasks need", sweepEvery, nil, failed.some},
		{"drop empty leases", sweepEvery, s.sweep, s.sweep},
		{"unpark tasks below limits", maintainEvery, unparker.All, unparker.Some},
		{"prune finished tasks", s.keep.Every(), pruneAll, pruner.Some},
		{"delete what is kept for tasks that are gone", sweepEvery, orphans.All, orphans.Some},
		{"insert tasks of schedules", maintainEvery, fire, fire},
	}
}

// sweep drops leases without a deadline whose tasks have all been returned.
func (s *Store) sweep(ctx context.Context) error {
	for swept := int64(sweptLeasesMax); swept == sweptLeasesMax; {
		err := s.db.Run(ctx, pg.Step{
			Name: "sweep_leases", Args: []any{sweptLeasesMax},
			Count: func(n int64) { swept = n },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startMaintenance has maintenance done in the background, at once or when the returned function is
// called first: that tells that the store is used to own tasks.
func (s *Store) startMaintenance(when Maintenance) (owning func(), err error) {
	start := func() {
		for _, duty := range s.duties() {
			s.db.Repeat(duty.name, duty.every, duty.some)
		}
		s.db.StartBackground(s.watchSessions)
		s.session.Watch()
	}
	switch when {
	case MaintainWhenOwning:
		return sync.OnceFunc(start), nil
	case MaintainNever:
		return func() {}, nil
	case MaintainAlways:
		start()
		return func() {}, nil
	default:
		return nil, argumentError("Options.Maintenance", "unknown value")
	}
}
