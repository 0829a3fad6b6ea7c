package stint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/prune"
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
	pruned, _, err := prune.New(s.db, s.keep.toEngine(), quiet).All(ctx)
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
	keep := s.keep.toEngine()
	pruner := prune.New(s.db, keep, false)
	keptTries := cmp.Or(s.history.Tries, keptTriesMax) // others may keep tries, and say how many
	orphans := prune.NewOrphans(s.db, keptTries, s.history.Age)
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
		{"prune finished tasks", keep.Every(), pruneAll, pruner.Some},
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
			m.store.db.Repeat(duty.name, duty.every, duty.some)
		}
		m.store.db.StartBackground(m.store.watchSessions)
		m.store.session.Watch()
	})
}

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
	name  string
	most  int
	tasks int64 // of leases: read fewer if they hold this many tasks
	keeps bool  // of leases: keep the tries that they end

	// The place: a time and a key, or, of leases, only a time.
	at  pgtype.Timestamptz
	key int64

	ended bool // nothing is due behind the place

	// done is how many rows it has settled, actions are those of the tasks that became ready, and
	// keys are the tasks that must end.
	done    int64
	actions []string
	keys    []int64

	// room are, of leases, the keys for which there is room. There may be parked tasks of them with
	// higher priorities than the tasks that became ready.
	room [][]string
}

func newDueScan(name string, most int) *dueScan {
	return &dueScan{name: name, most: most, at: pg.FirstMoment()}
}

func scanScheduled() *dueScan { return newDueScan("promote_scheduled", promotedTasksMax) }

func (s *Store) scanLeases(most int) *dueScan {
	scan := newDueScan("reclaim_leases", most)
	scan.tasks, scan.keeps = reclaimedTasksMax, s.history.Tries > 0
	return scan
}

func scanDeadlines() *dueScan { return newDueScan("forget_deadlines", dueTasksMax) }

func (s *Store) scanAll() []*dueScan {
	return []*dueScan{scanScheduled(), s.scanLeases(reclaimedLeaseMax), scanDeadlines()}
}

// step scans, and moves the place to the last row that it read.
func (d *dueScan) step() pg.Step {
	args := []any{d.most, d.at, d.key}
	if d.tasks > 0 {
		args = []any{d.most, d.at, d.tasks, d.keeps}
	}
	return pg.Step{Name: d.name, Args: args, Read: func(rows pgx.Rows) error {
		var at pgtype.Timestamptz
		var key *int64
		for rows.Next() { // there is one
			columns := []any{&at, &key, &d.done, &d.actions, &d.keys}
			if d.tasks > 0 {
				columns = append(columns, &d.room)
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
	if len(d.room) == 0 {
		return
	}
	parked := make([]limit.Key, len(d.room))
	for i, key := range d.room {
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

// settleDue does everything but pruning that is due when it begins. If several stores do so at the
// same time, each passes over the rows that another one is settling. A failure keeps nothing else
// from being done.
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
			Name: "end_due_tasks", Args: []any{at.batch, at.round, keys},
			Count: func(n int64) { ended = n },
		}
		// In the caller's transaction, the caller decides on lock_timeout.
		return append(pg.LimitWaiting(!s.db.InTx()), splitLeased(singles(keys)),
			s.limits.UnparkFor(s.db, keys, keys, nil, at.pending), end)
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
