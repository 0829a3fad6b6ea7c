package stint

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// What one transaction does at most, so that none lasts long.
	promotedTasksMax  = 1000
	reclaimedLeaseMax = 100
	dueTasksMax       = 1000

	// How often settleDue waits for a lock before it leaves the rest to the next time, and how many
	// times it looks on in vain.
	lockWaitsMax = 4
	vainLooksMax = 16
)

// A dueLook is a statement that looks at the first of what has come due behind a place. It sees to
// it, as far as that can be done without waiting for anybody.
type dueLook struct {
	name  string
	most  int
	keyed bool // the place is a time and a key, and not only a time

	at    pgtype.Timestamptz
	key   int64
	ended bool // nothing has come due behind the place

	// done is how much it has seen to, actions whom that may concern; keys are tasks that are to
	// end.
	done    int64
	actions []string
	keys    []int64
}

func newDueLook(name string, most int, keyed bool) *dueLook {
	return &dueLook{name: name, most: most, keyed: keyed, at: firstMoment()}
}

// firstMoment is ahead of all others.
func firstMoment() pgtype.Timestamptz {
	return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
}

func lookAtScheduled() *dueLook { return newDueLook("promote_scheduled", promotedTasksMax, true) }

func lookAtLeases(most int) *dueLook { return newDueLook("reclaim_leases", most, false) }

func lookAtDeadlines() *dueLook { return newDueLook("forget_deadlines", dueTasksMax, true) }

// step looks, and moves on to the place behind what it looked at.
func (l *dueLook) step() step {
	args := []any{l.most, l.at}
	if l.keyed {
		args = append(args, l.key)
	}
	return step{name: l.name, args: args, read: func(rows pgx.Rows) error {
		var at pgtype.Timestamptz
		var key *int64
		for rows.Next() { // there is one
			if err := rows.Scan(&at, &key, &l.done, &l.actions, &l.keys); err != nil {
				return err
			}
		}
		if l.ended = !at.Valid; !l.ended {
			l.at, l.key = at, *key
		}
		return rows.Err()
	}}
}

// tell adds what others may wait for.
func (l *dueLook) tell(told *news) {
	for _, action := range l.actions {
		told.addReady(action)
	}
}

// dueLooks are the looks that the last settleDue did not bring to their ends, since they were in
// vain. The next one goes on behind them: what cannot be seen to, however much it is, does not keep
// the rest from it.
type dueLooks struct {
	mutex sync.Mutex
	open  []*dueLook
}

// take returns looks at all that may be due, from the first on but for those left open, and whether
// there are some of these.
func (d *dueLooks) take() (looks []*dueLook, resumed bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	looks = []*dueLook{lookAtScheduled(), lookAtLeases(reclaimedLeaseMax), lookAtDeadlines()}
	for i, look := range looks {
		for _, open := range d.open {
			if open.name == look.name {
				looks[i], resumed = open, true
			}
		}
	}
	d.open = nil
	return looks, resumed
}

func (d *dueLooks) leave(open []*dueLook) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.open = open
}

// settleDue does everything but pruning that is due when it begins. Of several stores that do so at
// the same time, each passes over what another one is at.
func (s *Store) settleDue(ctx context.Context) error {
	const walksMost = 2
	patience, vain := lockWaitsMax, 0
	for range walksMost {
		ended := int64(0)
		looks, resumed := s.due.take()
		for len(looks) > 0 {
			done, n, err := s.lookForDue(ctx, looks, &patience)
			if err != nil {
				return err
			}
			looks = slices.DeleteFunc(looks, func(l *dueLook) bool { return l.ended })
			if ended += n; done+n == 0 {
				vain++
			}
			if vain == vainLooksMax {
				s.due.leave(looks)
				return nil
			}
		}
		if !resumed && ended == 0 { // what ends leaves empty leases, and deadlines
			break
		}
	}
	return nil
}

// lookForDue looks, and ends the tasks that it finds are to end. It returns how much was done, and
// how many tasks ended.
func (s *Store) lookForDue(
	ctx context.Context, looks []*dueLook, patience *int,
) (done, ended int64, err error) {
	steps := make([]step, len(looks))
	for i, look := range looks {
		steps[i] = look.step()
	}
	if err := s.run(ctx, steps...); err != nil {
		return 0, 0, err
	}
	told := &news{}
	var keys []int64
	for _, look := range looks {
		done += look.done
		keys = append(keys, look.keys...)
		look.tell(told)
	}
	s.tell(ctx, told)
	slices.Sort(keys)
	for some := range slices.Chunk(slices.Compact(keys), dueTasksMax) {
		n, err := s.endDue(ctx, some, patience)
		if err != nil {
			return done, ended, err
		}
		ended += n
	}
	return done, ended, nil
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
