package stint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Maintenance says when a store maintains the schema by itself.
type Maintenance int

const (
	// MaintainWhenOwning maintains once a second from the first call of OwnTasks on: wherever
	// there is a worker, expiry and deadlines are seen to.
	MaintainWhenOwning Maintenance = iota
	// MaintainAlways maintains once a second from New on.
	MaintainAlways
	// MaintainNever leaves it to the other stores on the schema and to [Store.Maintain].
	MaintainNever
)

const (
	maintainEvery = time.Second

	// What one transaction does at most, so that none lasts long.
	promotedTasksMax  = 1000
	reclaimedLeaseMax = 100
	dueTasksMax       = 1000

	// How often a pass waits for a lock before it leaves the rest to the next one.
	lockWaitsMax = 4
)

// Maintain does what is due: it makes scheduled tasks ready and completes spontaneous ones whose
// time has come (R14), hands on the tasks of expired leases and of processes that are gone (R15),
// aborts those that have no tries left (R13) or whose Deadline has passed (R6), and prunes finished
// tasks past their retention (R18).
// Any number of processes may call it, at once as well.
//
// A store does this by itself unless [Options.Maintenance] says otherwise, so hardly anybody needs
// to call it. The call may be repeated after any failure; what it did until then stays done.
func (s *Store) Maintain(ctx context.Context) error {
	if s.tx == nil { // in the caller's it would keep the locks of sessions
		if _, err := s.lookForSessions(ctx, false); err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
	}
	if err := s.settleDue(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	if _, _, err := s.newPruner().pass(ctx); err != nil {
		return fmt.Errorf("maintain: prune: %w", err)
	}
	return nil
}

// settleDue does everything but pruning, until nothing is left to do.
func (s *Store) settleDue(ctx context.Context) error {
	for {
		more := false
		upTo := func(limit int64) func(int64) {
			return func(n int64) { more = more || n >= limit }
		}
		var due []int64
		told := &news{}
		err := s.run(ctx, promote(told, upTo(promotedTasksMax)),
			reclaim(told, upTo(reclaimedLeaseMax)),
			step{
				name: "sweep_leases", args: []any{reclaimedLeaseMax},
				count: upTo(reclaimedLeaseMax),
			},
			step{
				name: "forget_deadlines", args: []any{dueTasksMax}, count: upTo(dueTasksMax),
			},
			step{
				name: "due_tasks", args: []any{dueTasksMax, s.dueAfter.Load()},
				read: func(rows pgx.Rows) error {
					var err error
					due, err = pgx.CollectRows(rows, pgx.RowTo[int64])
					return err
				},
			},
		)
		if err != nil {
			return err
		}
		s.tell(ctx, told)
		s.dueAfter.Store(0)
		if len(due) == dueTasksMax { // the next look begins behind these
			s.dueAfter.Store(due[len(due)-1])
		}
		patience := lockWaitsMax
		ended, err := s.endDue(ctx, due, &patience)
		if err != nil {
			return err
		}
		if !more && ended == 0 { // what ended may have emptied a lease
			return nil
		}
	}
}

// endDue ends tasks that end by themselves, and returns how many did. One that cannot end, because
// somebody's transaction holds what depends on it or for another reason, does not keep the others
// from it. Patience is how often it may still wait for a lock.
func (s *Store) endDue(ctx context.Context, keys []int64, patience *int) (int64, error) {
	if len(keys) == 0 || *patience == 0 {
		return 0, nil
	}
	var ended int64
	err := s.settle(ctx, roundsUsual, nil, func(batch int64, round int, _ *news) []step {
		end := step{
			name: "end_due_tasks", args: []any{batch, round, keys},
			count: func(n int64) { ended = n },
		}
		// The caller's lock_timeout is the caller's.
		return append(limitWaiting(s.tx == nil), carveLeased(singles(keys)), end)
	})
	var pgErr *pgconn.PgError
	if s.tx != nil || !errors.As(err, &pgErr) || wasCutOff(err) {
		return ended, err
	}
	if waited := isCode(err, codeLockNotAvailable); waited {
		*patience--
		err = nil
	}
	if len(keys) == 1 {
		return 0, err
	}
	half := len(keys) / 2
	first, firstErr := s.endDue(ctx, keys[:half], patience)
	second, secondErr := s.endDue(ctx, keys[half:], patience)
	return first + second, errors.Join(firstErr, secondErr)
}

// promote makes scheduled tasks ready; count is told how many, unless it is nil.
func promote(told *news, count func(int64)) step {
	return step{
		name: "promote_scheduled", args: []any{promotedTasksMax},
		read: func(rows pgx.Rows) error {
			actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, action := range actions {
				told.addReady(action)
			}
			if count != nil {
				count(int64(len(actions)))
			}
			return err
		},
	}
}

// reclaim hands on the tasks of expired leases; count is told how many leases are gone, unless it
// is nil.
func reclaim(told *news, count func(int64)) step {
	return reclaimUpTo(reclaimedLeaseMax, told, count)
}

func reclaimUpTo(leases int, told *news, count func(int64)) step {
	return step{
		name: "reclaim_leases", args: []any{leases},
		read: func(rows pgx.Rows) error {
			var gone int64
			var actions []string
			for rows.Next() { // there is one
				if err := rows.Scan(&gone, &actions); err != nil {
					return err
				}
			}
			for _, action := range actions {
				told.addReady(action)
			}
			if count != nil {
				count(gone)
			}
			return rows.Err()
		},
	}
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
		return nil, argumentError("Options.Maintenance", "unknown")
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
		m.store.repeat(maintainEvery, m.store.settleDue)
		m.store.repeat(m.store.keep.pruneEvery(), m.store.newPruner().keepUp)
		m.store.background.start(m.store.watchSessions)
		m.store.watching()
	})
}

// around is a pause of that length on average. The jitter keeps many processes from coming all at
// once.
func around(pause time.Duration) time.Duration {
	return pause*3/4 + rand.N(pause/2+1) //nolint:gosec // no secret
}
