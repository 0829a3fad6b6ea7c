package stint

import (
	"context"
	"errors"
	"math/rand/v2"
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
	reclaimedTasksMax = 10_000 // but for those of one lease, and of leases that end together
	dueTasksMax       = 1000

	// How often settleDue fails to end tasks before it leaves the rest to the next time, and how
	// many times in a row it goes on in vain.
	failuresMax  = 4
	vainScansMax = 16

	// scansAnew is after how many scans of what is left of one kind the others are begun again.
	scansAnew = 16
)

// A dueScan is a statement that reads the first of what has come due behind a place. It sees to
// it, as far as that can be done without waiting for anybody.
type dueScan struct {
	name  string
	most  int
	tasks int64 // of leases: read fewer if they hold so many

	// The place: a time and a key, or, of leases, only a time.
	at  pgtype.Timestamptz
	key int64

	ended bool // nothing has come due behind the place

	// done is how much it has seen to, actions whom that may concern; keys are tasks that are to
	// end.
	done    int64
	actions []string
	keys    []int64
}

func newDueScan(name string, most int) *dueScan {
	return &dueScan{name: name, most: most, at: firstMoment()}
}

// firstMoment is ahead of all others.
func firstMoment() pgtype.Timestamptz {
	return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
}

func scanScheduled() *dueScan { return newDueScan("promote_scheduled", promotedTasksMax) }

func scanLeases(most int) *dueScan {
	scan := newDueScan("reclaim_leases", most)
	scan.tasks = reclaimedTasksMax
	return scan
}

func scanDeadlines() *dueScan { return newDueScan("forget_deadlines", dueTasksMax) }

func scanAll() []*dueScan {
	return []*dueScan{scanScheduled(), scanLeases(reclaimedLeaseMax), scanDeadlines()}
}

// step scans, and moves on to the place behind what it read.
func (d *dueScan) step() step {
	last := d.key
	if d.tasks > 0 {
		last = d.tasks
	}
	return step{name: d.name, args: []any{d.most, d.at, last}, read: func(rows pgx.Rows) error {
		var at pgtype.Timestamptz
		var key *int64
		for rows.Next() { // there is one
			if err := rows.Scan(&at, &key, &d.done, &d.actions, &d.keys); err != nil {
				return err
			}
		}
		if d.ended = !at.Valid; !d.ended {
			d.at, d.key = at, *key
		}
		return rows.Err()
	}}
}

// tell adds what others may wait for.
func (d *dueScan) addNotices(pending *notices) {
	for _, action := range d.actions {
		pending.addReady(action)
	}
}

// A duty is what a store remembers from one settleDue to the next.
type duty struct {
	mutex sync.Mutex

	// open are the scans that the last settleDue did not bring to their ends, since they were in
	// vain. The next one goes on behind them, so that tasks that others hold, however many, do not
	// keep the rest waiting.
	open []*dueScan

	// doubt is how often in a row tasks that were to end could not. The more often, the fewer are
	// tried together, since one that cannot end keeps those from it that are tried with it.
	doubt int
}

// take returns scans of all that may be due, those left open among them, whether there are some of
// these, and how many tasks to end at once.
func (d *duty) take() (scans []*dueScan, resumed bool, atOnce int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	scans = scanAll()
	for i, scan := range scans {
		for _, open := range d.open {
			if open.name == scan.name {
				scans[i], resumed = open, true
			}
		}
	}
	d.open = nil
	return scans, resumed, max(dueTasksMax>>(2*d.doubt), 1)
}

func (d *duty) leave(open []*dueScan) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.open = open
}

// learn is told whether tasks could not end.
func (d *duty) learn(failed bool) {
	const doubtMax = 5 // a task at a time
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if failed {
		d.doubt = min(d.doubt+1, doubtMax)
	} else {
		d.doubt = max(d.doubt-1, 0)
	}
}

// settleDue does everything but pruning that is due when it begins. Of several stores that do so at
// the same time, each passes over what another one is at. What fails keeps nothing else from being
// done.
func (s *Store) settleDue(ctx context.Context) error {
	const walksMost = 2
	var ends dueEnds
	defer func() { s.duty.learn(ends.failures > 0) }()
	for range walksMost {
		resumed, ended, err := s.walkDue(ctx, &ends)
		if err != nil {
			return errors.Join(append(ends.errs, err)...)
		}
		if !resumed && ended == 0 { // what ends leaves empty leases, and deadlines
			break
		}
	}
	return errors.Join(ends.errs...)
}

// walkDue goes along all that is due. It returns whether it went on where another one ended, and
// how many tasks ended.
func (s *Store) walkDue(ctx context.Context, ends *dueEnds) (resumed bool, ended int64, err error) {
	scans, resumed, atOnce := s.duty.take()
	ends.atOnce = atOnce
	for n, vain := 1, 0; len(scans) > 0; n++ {
		done, tasks, err := s.scanDue(ctx, scans, ends)
		if err != nil {
			return resumed, ended, err
		}
		scans = slices.DeleteFunc(scans, func(d *dueScan) bool { return d.ended })
		ended += tasks
		if vain++; done+tasks > 0 {
			vain = 0
		}
		if vain == vainScansMax {
			s.duty.leave(scans)
			break
		}
		if n%scansAnew == 0 { // what is left of one kind shall not keep others waiting
			scans = beginAnew(scans)
		}
	}
	return resumed, ended, nil
}

// beginAnew adds scans of the kinds that have ended, if there is one that has not.
func beginAnew(scans []*dueScan) []*dueScan {
	if len(scans) == 0 {
		return nil
	}
	for _, scan := range scanAll() {
		if !slices.ContainsFunc(scans, func(d *dueScan) bool { return d.name == scan.name }) {
			scans = append(scans, scan)
		}
	}
	return scans
}

// scanDue takes scans a step further, and ends the tasks that they find are to end. It returns how
// much was done, and how many tasks ended.
func (s *Store) scanDue(
	ctx context.Context, scans []*dueScan, ends *dueEnds,
) (done, ended int64, err error) {
	steps := make([]step, len(scans))
	for i, scan := range scans {
		steps[i] = scan.step()
	}
	if err := s.run(ctx, steps...); err != nil {
		return 0, 0, err
	}
	pending := &notices{}
	var keys []int64
	for _, scan := range scans {
		done += scan.done
		keys = append(keys, scan.keys...)
		scan.addNotices(pending)
	}
	s.notify(ctx, pending)
	slices.Sort(keys)
	chunks := slices.Collect(slices.Chunk(slices.Compact(keys), ends.atOnce))
	rand.Shuffle(len(chunks), func(i, j int) { //nolint:gosec // no secret
		chunks[i], chunks[j] = chunks[j], chunks[i]
	})
	for _, some := range chunks {
		n, err := s.endDue(ctx, some, ends)
		if ended += n; err != nil {
			return done, ended, err
		}
	}
	return done, ended, nil
}

// dueEnds is how it goes with the tasks that settleDue is to end.
type dueEnds struct {
	atOnce   int // how many to try together
	failures int
	errs     []error // of the failures, but for locks that others hold
}

// endDue ends tasks that end by themselves, and returns how many did. One that cannot end, because
// somebody's transaction holds what depends on it or for another reason, keeps from it only those
// that are tried with it: the halves are tried apart, in any order, until there were too many
// failures. An error that is returned is none of the tasks', except in the caller's transaction.
func (s *Store) endDue(ctx context.Context, keys []int64, ends *dueEnds) (int64, error) {
	if len(keys) == 0 || ends.failures >= failuresMax {
		return 0, nil
	}
	var ended int64
	err := s.settle(ctx, roundsUsual, nil, func(batch int64, round int, _ *notices) []step {
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
	waited := isCode(err, codeLockNotAvailable)
	if waited || len(keys) == 1 {
		ends.failures++
	}
	if len(keys) == 1 {
		if !waited {
			ends.errs = append(ends.errs, err)
		}
		return 0, nil
	}
	halves := [][]int64{keys[:len(keys)/2], keys[len(keys)/2:]}
	first := rand.IntN(len(halves)) //nolint:gosec // no secret
	for _, half := range [][]int64{halves[first], halves[1-first]} {
		n, err := s.endDue(ctx, half, ends)
		if ended += n; err != nil {
			return ended, err
		}
	}
	return ended, nil
}
