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

	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How much one transaction does at most, so that none lasts long.
	promotedTasksMax  = 1000
	reclaimedLeaseMax = 100
	reclaimedTasksMax = 10_000 // except for the tasks of one lease, or of leases that end together
	dueTasksMax       = 1000

	// How often settleDue may fail to end tasks, and how often in a row its scans may achieve
	// nothing, before it leaves the rest to the next call.
	failuresMax  = 4
	vainScansMax = 16

	// scansAnew is after how many scans the kinds of scan that have ended begin again, if another
	// kind still goes on.
	scansAnew = 16
)

// A dueScan is a statement that reads the first rows that are due behind a place. It settles them
// as far as it can without waiting for anybody.
type dueScan struct {
	name   string
	most   int
	tasks  int64 // of leases: read fewer if they hold this many tasks
	keeps  bool  // of leases: keep the tries that they end
	losses int   // of leases: how many in a row abort a task, 0: none do

	// The place: a time and a key, or, of leases, only a time.
	at  pgtype.Timestamptz
	key int64

	ended bool // nothing is due behind the place

	// done is how many rows it has settled, actions are those of the tasks that became ready, and
	// keys are the tasks that must end.
	done    int64
	actions []string
	keys    []int64

	// freed are keys that have capacity again because their tasks were taken back; of leases only.
	// There may be parked tasks of them.
	freed [][]string
}

func newDueScan(name string, most int) *dueScan {
	return &dueScan{name: name, most: most, at: pg.FirstMoment()}
}

func scanScheduled() *dueScan { return newDueScan("promote_scheduled", promotedTasksMax) }

func (s *Store) scanLeases(most int) *dueScan {
	scan := newDueScan("reclaim_leases", most)
	scan.tasks, scan.keeps, scan.losses = reclaimedTasksMax, s.triesKept > 0, s.maxLosses
	return scan
}

func scanDeadlines() *dueScan { return newDueScan("scan_task_deadlines", dueTasksMax) }

func (s *Store) scanAll() []*dueScan {
	return []*dueScan{scanScheduled(), s.scanLeases(reclaimedLeaseMax), scanDeadlines()}
}

// step scans, and moves the place to the last row that it read.
func (d *dueScan) step() pg.Step {
	args := []any{d.most, d.at, d.key}
	if d.tasks > 0 {
		args = []any{d.most, d.at, d.tasks, d.keeps, d.losses}
	}
	return pg.Step{Name: d.name, Args: args, Read: func(rows pgx.Rows) error {
		var at pgtype.Timestamptz
		var key *int64
		for rows.Next() { // there is one
			columns := []any{&at, &key, &d.done, &d.actions, &d.keys}
			if d.tasks > 0 {
				columns = append(columns, &d.freed)
			}
			if err := rows.Scan(columns...); err != nil {
				return err
			}
		}
		if d.ended = !at.Valid; !d.ended {
			d.at, d.key = at, *key
		}
		return rows.Err()
	}}
}

// addNotices adds what others may wait for, and has parked tasks unparked.
func (s *Store) addNotices(d *dueScan, pending *pg.Notices) {
	for _, action := range d.actions {
		pending.Add(readyTopic(action))
	}
	if len(d.freed) == 0 {
		return
	}
	parked := make([]limit.Key, len(d.freed))
	for i, key := range d.freed {
		parked[i] = limit.Key{Action: key[0], Key: key[1]}
	}
	s.limits.Recheck(parked)
}

// A dueCursor is what a store remembers from one settleDue to the next.
type dueCursor struct {
	mutex sync.Mutex

	// open are the scans that the last settleDue did not finish, since they achieved nothing. The
	// next settleDue goes on where they stopped, so that tasks that others lock, however many, do
	// not keep the rest waiting.
	open []*dueScan

	// doubt grows each time that tasks could not end, and shrinks each time that all could. The
	// greater it is, the fewer tasks are tried together, since a task that cannot end keeps the
	// tasks that are tried with it from ending.
	doubt int
}

// take puts the scans that were left open in the place of new ones, and returns whether there were
// some, and how many tasks to end at once.
func (d *dueCursor) take(scans []*dueScan) (resumed bool, atOnce int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for i, scan := range scans {
		for _, open := range d.open {
			if open.name == scan.name {
				scans[i], resumed = open, true
			}
		}
	}
	d.open = nil
	return resumed, max(dueTasksMax>>(2*d.doubt), 1)
}

func (d *dueCursor) leave(open []*dueScan) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.open = open
}

// learn takes note of whether tasks failed to end.
func (d *dueCursor) learn(failed bool) {
	const doubtMax = 5 // a task at a time
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if failed {
		d.doubt = min(d.doubt+1, doubtMax)
	} else {
		d.doubt = max(d.doubt-1, 0)
	}
}

// settleDue promotes scheduled tasks, takes back leases that have expired, and ends tasks past
// their deadline or their last try, all that are due when it begins. If several stores do so at the
// same time, each passes over the rows that another one is settling. A failure of one part does not
// keep the others from being done.
func (s *Store) settleDue(ctx context.Context) error {
	const walksMost = 2
	var ends dueEnds
	defer func() { s.due.learn(ends.failures > 0) }()
	for range walksMost {
		resumed, ended, err := s.walkDue(ctx, &ends)
		if err != nil {
			return errors.Join(append(ends.errs, err)...)
		}
		if !resumed && ended == 0 { // tasks that end leave empty leases and deadlines
			break
		}
	}
	return errors.Join(ends.errs...)
}

// walkDue scans everything that is due. It returns whether it resumed scans that were left open,
// and how many tasks ended.
func (s *Store) walkDue(ctx context.Context, ends *dueEnds) (resumed bool, ended int64, err error) {
	scans := s.scanAll()
	resumed, atOnce := s.due.take(scans)
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
			s.due.leave(scans)
			break
		}
		if n%scansAnew == 0 { // much of one kind must not keep the others waiting
			scans = s.beginAnew(scans)
		}
	}
	return resumed, ended, nil
}

// beginAnew adds new scans of the kinds that have ended, if another kind still goes on.
func (s *Store) beginAnew(scans []*dueScan) []*dueScan {
	if len(scans) == 0 {
		return nil
	}
	for _, scan := range s.scanAll() {
		if !slices.ContainsFunc(scans, func(d *dueScan) bool { return d.name == scan.name }) {
			scans = append(scans, scan)
		}
	}
	return scans
}

// scanDue takes each scan a step further, and ends the tasks that must end. It returns how many
// rows the scans settled, and how many tasks ended.
func (s *Store) scanDue(
	ctx context.Context, scans []*dueScan, ends *dueEnds,
) (done, ended int64, err error) {
	steps := make([]pg.Step, len(scans))
	for i, scan := range scans {
		steps[i] = scan.step()
	}
	if err := s.db.Run(ctx, steps...); err != nil {
		return 0, 0, err
	}
	pending := &pg.Notices{}
	var keys []int64
	for _, scan := range scans {
		done += scan.done
		keys = append(keys, scan.keys...)
		s.addNotices(scan, pending)
	}
	s.db.Notify(ctx, pending)
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

// dueEnds is how far settleDue has come with the tasks that must end.
type dueEnds struct {
	atOnce   int // how many to try together
	failures int
	errs     []error // of the failures, except for locks that others hold
}

// endDue ends tasks whose end is due, and returns how many ended. If one of them cannot end,
// because somebody's transaction locks its dependents or for another reason, the halves are tried
// separately, in any order, until there were too many failures. So a task that cannot end holds up
// only the tasks that are tried with it. endDue does not return the errors of the tasks, except in
// the caller's transaction.
func (s *Store) endDue(ctx context.Context, keys []int64, ends *dueEnds) (int64, error) {
	if len(keys) == 0 || ends.failures >= failuresMax {
		return 0, nil
	}
	var ended int64
	err := s.settle(ctx, roundsUsual, nil, func(at settling) []pg.Step {
		end := pg.Step{
			Name: "end_due_tasks", Args: []any{at.batch, at.round, keys, s.maxLosses},
			Count: func(n int64) { ended = n },
		}
		// In the caller's transaction, the caller decides on lock_timeout.
		return append(pg.LimitWaiting(!s.db.InTx()), splitLeased(singles(keys)),
			s.limits.UnparkFor(s.db.InCallersTx(), keys, keys, at.pending), end)
	})
	var pgErr *pgconn.PgError
	if s.db.InTx() || !errors.As(err, &pgErr) || pg.WasCutOff(err) {
		return ended, err
	}
	waited := pg.IsCode(err, pg.CodeLockNotAvailable)
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
