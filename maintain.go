package stint

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/clock"
	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/duty"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/prune"
	"github.com/stint-tasks/stint/internal/schedule"
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
// finished tasks past their retention (R18). Outside the caller's transactions it notes what
// [Store.Minutes] tells. It puts right what a server's clock has left in the tables that was ahead
// for a while.
//
// A store does this in the background unless [Options.Maintenance] says otherwise, so few callers
// need this. Any number of processes may call it at once. The call may be repeated after any
// failure; the work done until then stays done. In a copy it is refused with [ErrCopy].
func (s *Store) Maintain(ctx context.Context) error {
	s = s.on(s.db.Acting())
	if !s.db.InTx() { // the caller's transaction would keep the locks of sessions
		if _, err := s.checkSessions(ctx, false); err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
	}
	for _, part := range s.upkeeps() {
		if part.all == nil {
			continue
		}
		if err := part.all(ctx); err != nil {
			return fmt.Errorf("maintain: %s: %w", part.Work, err)
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
// transaction it is undone if that rolls back, and other stores prune nothing until it ends.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	const quiet = true // the retention may be for this once
	pruned, _, err := prune.New(s.db, s.keep, quiet).All(ctx)
	if err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
}

// An upkeep is a part of maintenance. Maintain does all of it that is due; the background does its
// duty every so often, for all stores on the schema.
type upkeep struct {
	all func(context.Context) error
	duty.Duty
}

// dutyDue is the name of the duty to settle what is due.
const dutyDue = "due"

// upkeeps are the parts of maintenance, in the order of Maintain. Schedules come last, since one
// that fails stays there.
func (s *Store) upkeeps() []upkeep {
	failed, failedLately := &failFaster{store: s}, &failFaster{store: s}
	unparker := limit.NewUnparker(s.limits, s.db)
	pruner := prune.New(s.db, s.keep, false)
	// Others may keep tries, and say how many.
	keepTries := prune.KeepTries{Most: cmp.Or(s.triesKept, keptTriesMax), Age: s.triesAge}
	orphans := prune.NewOrphans(s.db, keepTries)
	fire := (&scheduleFirer{store: s}).all
	mender := &clock.Mender{
		DB: s.db, Logger: s.logger, Schedules: schedule.NewMender(s.db).Mend,
	}
	pruneAll := func(ctx context.Context) error {
		_, _, err := pruner.All(ctx)
		return err
	}
	kept := func(found duty.Found) *time.Duration { return duty.Now(found.Kept) }
	all := []upkeep{
		{mender.All, duty.Duty{
			Name: "clock", Work: "put right what a clock that was ahead has left",
			Every: sweepEvery, Do: mender.Some,
		}},
		{s.settleDue, duty.Duty{
			Name: dutyDue, Work: "hand on and end tasks that are due", Every: maintainEvery,
			In: func(found duty.Found) *time.Duration { return found.Due }, Do: s.settleDue,
		}},
		{failed.all, duty.Duty{
			Name: "failed", Work: "abort what only aborted tasks need", Every: maintainEvery,
			In: func(found duty.Found) *time.Duration { return duty.Now(found.Failed) },
			Do: failedLately.recent,
		}},
		{nil, duty.Duty{
			Name: "needless", Work: "come back to what aborted tasks need", Every: sweepEvery,
			In: kept, Do: failed.some,
		}},
		{s.sweep, duty.Duty{
			Name: "sweep", Work: "drop empty leases", Every: sweepEvery, In: kept, Do: s.sweep,
		}},
		{unparker.All, duty.Duty{
			Name: "unpark", Work: "unpark tasks below limits", Every: maintainEvery,
			In: func(found duty.Found) *time.Duration { return duty.Now(found.Limited) },
			Do: unparker.Some,
		}},
		{pruneAll, duty.Duty{
			Name: "prune", Work: "prune finished tasks", Every: s.keep.Every(),
			Terms: s.keep.Terms(), Suits: s.keep.Suits, Do: pruner.Some,
		}},
		{orphans.All, duty.Duty{
			Name: "orphans", Work: "delete what is kept for tasks that are gone",
			Every: sweepEvery, Terms: keepTries.Terms(), Suits: keepTries.Suits,
			In: kept, Do: orphans.Some,
		}},
		{fire, duty.Duty{
			Name: "schedules", Work: "insert tasks of schedules", Every: maintainEvery,
			In: func(found duty.Found) *time.Duration { return found.Schedule }, Do: fire,
		}},
	}
	if s.withoutMinutes { // others do not rely on it
		return all
	}
	return append(all, upkeep{s.noteMinute, duty.Duty{
		Name: "minutes", Work: "note what happens in each minute", Every: counts.MinutesEvery,
		Do: s.noteMinute,
	}})
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

// newRoster returns the part of this store in what the stores on the schema do in the background.
func (s *Store) newRoster() *duty.Roster {
	bulletin := &duty.Bulletin{DB: s.db, Session: s.session.ID, Topic: readyTopic}
	duties := []duty.Duty{{
		Name: duty.Ready, Work: "tell again of ready tasks", Every: maintainEvery,
		In: func(found duty.Found) *time.Duration { return duty.Now(found.Ready) },
		Do: bulletin.Remind,
	}}
	for _, part := range s.upkeeps() {
		duties = append(duties, part.Duty)
	}
	look := func(ctx context.Context, news duty.News) (duty.Found, bool, error) {
		found, told, err := bulletin.Look(ctx, news)
		if err == nil {
			s.watch.Looked(ctx, found.Busy, found.Others)
			if !found.Ready && found.Without != duty.Ready {
				s.poller.Looked()
			}
		}
		return found, told, err
	}
	return duty.NewRoster(duty.Config{
		Logger: s.logger, Duties: duties, Look: look, Tell: bulletin.Tell,
	})
}

// startMaintenance has maintenance done in the background, at once or when the returned function is
// called first: that tells that the store is used to own tasks.
func (s *Store) startMaintenance(when Maintenance) (owning func(), err error) {
	start := func() {
		roster := s.on(s.db.Unhurried().Acting()).newRoster()
		s.roster.Store(roster)
		s.db.StartBackground(roster.Run)
		s.db.StartBackground(s.watch.Run)
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

// Adopt says that the tasks belong to the database of the store, which so is a copy no more
// ([ErrCopy]), and that its environment is [Options.Environment]; without one, the next store that
// has one names it. Then tasks are handed out, schedules fire, and what is due is done: so first
// abort or delete what is not to be performed twice. Stores notice within some seconds. It is
// refused in the caller's transaction, and may be repeated after any failure.
func Adopt(ctx context.Context, store *Store) error {
	if err := store.outsideTx(""); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return store.db.Adopt(ctx)
}
