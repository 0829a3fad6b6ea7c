package stint

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/safely"
)

// OwnershipContext returns a context that ends when the owner of a task loses it: because the task
// was aborted, or because its lease expired and somebody else has been given it. The cause is then
// [ErrInvalidToken], in a [*TaskError]; it is [ErrClosed] if the store is closed. An expired lease
// alone does not end it (R8), unless an extension is refused for that, as under limits.
//
// A loss is usually noticed within milliseconds, at the latest after 1.25 [Options.PollInterval],
// and at once when a call to extend the ownership finds it. While the database cannot be reached,
// nothing is noticed. A token that OwnTasks gave out in a transaction looks lost until the commit.
//
// Call the returned function when the task has been performed, before it is returned.
func (s *Store) OwnershipContext(
	ctx context.Context, owned OwnedTask,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if err := s.db.Refused(); err != nil {
		cancel(err)
		return ctx, func() {}
	}
	s = s.on(s.db.Outside()) // the watching outlives the caller's transaction
	s.session.Listen(kindLost)
	watched := &watchedOwner{id: owned.ID, lose: cancel}
	p := owned.performance()
	o := &s.owners
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.prepare()
	if o.watched[p] == nil {
		o.watched[p] = map[*watchedOwner]bool{}
	}
	o.watched[p][watched] = true
	o.running = o.running || s.db.StartBackground(s.watchOwners)
	if !o.running {
		cancel(ErrClosed)
	}
	return ctx, func() {
		o.leave(p, watched)
		cancel(context.Canceled)
	}
}

// WatchOwnership is [Store.OwnershipContext] for an owner of many tasks. It calls lost with each
// task that its owner has lost, and with the reason, [ErrInvalidToken] or [ErrClosed], until the
// returned function is called; one call may still be under way then. It calls owned for the tasks
// to check, of which it needs ID and token, every [Options.PollInterval], or sooner if there is
// reason to. It reports a lost task again as long as owned returns it.
//
// The calls are made one after another, so neither function should block for long. If one panics,
// that is logged, and tells nothing. A loss that [Store.ExtendTasksOwnership] finds is told by its
// result, and here at the next check if owned still returns it. A closed store tells nothing.
func (s *Store) WatchOwnership(
	owned func() []OwnedTask, lost func(OwnedTask, error),
) (stop func()) {
	o, w := &s.owners, &watcher{
		owned: func() (tasks []OwnedTask) {
			s.callBack(func() { tasks = owned() })
			return tasks
		},
		lost: func(task OwnedTask, cause error) { s.callBack(func() { lost(task, cause) }) },
	}
	if err := s.db.Refused(); err != nil {
		s.db.StartBackground(func(context.Context) {
			for _, task := range w.owned() {
				w.lost(task, err)
			}
		})
		return func() {}
	}
	s = s.on(s.db.Outside()) // the watching outlives the caller's transaction
	s.session.Listen(kindLost)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.prepare()
	o.watchers[w] = true
	o.running = o.running || s.db.StartBackground(s.watchOwners)
	return func() {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		delete(o.watchers, w)
	}
}

// callBack calls a function of the caller's in our goroutine, which must not end with it.
func (s *Store) callBack(f func()) {
	if failure := safely.Call(f); failure != nil {
		s.logs.callback.Failed(context.Background(), failure)
	}
}

// owners are the callers that want to know when a performance is lost.
type owners struct {
	mutex    sync.Mutex
	watched  map[performance]map[*watchedOwner]bool
	watchers map[*watcher]bool
	wake     chan struct{}
	running  bool
}

// A watcher is told of all performances of an owner.
type watcher struct {
	owned func() []OwnedTask
	lost  func(OwnedTask, error)
}

// prepare makes the maps and the channel if nobody has been interested before; the mutex is held.
func (o *owners) prepare() {
	if o.watched == nil {
		o.watched = map[performance]map[*watchedOwner]bool{}
		o.watchers = map[*watcher]bool{}
		o.wake = make(chan struct{}, 1)
	}
}

// owned returns what each watcher owns now.
func (o *owners) owned() map[*watcher][]OwnedTask {
	o.mutex.Lock()
	watchers := slices.Collect(maps.Keys(o.watchers))
	o.mutex.Unlock()
	owned := make(map[*watcher][]OwnedTask, len(watchers))
	for _, w := range watchers {
		owned[w] = w.owned()
	}
	return owned
}

type watchedOwner struct {
	id   TaskID
	lose context.CancelCauseFunc
}

func (o *owners) leave(p performance, watched *watchedOwner) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.watched[p], watched)
	if len(o.watched[p]) == 0 {
		delete(o.watched, p)
	}
}

// lost tells that performances are lost for certain.
func (o *owners) lost(performances ...performance) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, p := range performances {
		for watched := range o.watched[p] {
			watched.lose(&TaskError{IDs: []TaskID{watched.id}, Err: ErrInvalidToken})
		}
		delete(o.watched, p)
	}
}

// lostSome tells that tasks with these keys may be lost.
func (o *owners) lostSome(keys []int64) {
	lost := make(map[int64]bool, len(keys))
	for _, key := range keys {
		lost[key] = true
	}
	if o.ownsSome(lost) {
		pg.WakeUp(o.wake)
	}
}

// ownsSome reports whether somebody is interested in one of the tasks with these keys.
func (o *owners) ownsSome(keys map[int64]bool) bool {
	for _, tasks := range o.owned() {
		for i := range tasks {
			if keys[tasks[i].performance().key] {
				return true
			}
		}
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for p := range o.watched {
		if keys[p.key] {
			return true
		}
	}
	return false
}

// performances returns the performances that are watched, and those that the watchers own.
func (o *owners) performances(owned map[*watcher][]OwnedTask) map[performance]bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	all := make(map[performance]bool, len(o.watched))
	for p := range o.watched {
		all[p] = true
	}
	for _, tasks := range owned {
		for i := range tasks {
			all[tasks[i].performance()] = true
		}
	}
	return all
}

// lostAny tells that any performance may be lost.
func (o *owners) lostAny() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.watched)+len(o.watchers) > 0 {
		pg.WakeUp(o.wake)
	}
}

// watchOwners looks at the performances that are watched, once an interval and when one is said to
// be lost. It ends when there are none.
func (s *Store) watchOwners(ctx context.Context) {
	o := &s.owners
	pause := s.poll
	for {
		select {
		case <-ctx.Done():
			o.close()
			return
		case <-o.wake:
		case <-time.After(pg.Around(pause)):
		}
		o.mutex.Lock()
		if len(o.watched)+len(o.watchers) == 0 {
			o.running = false
			o.mutex.Unlock()
			return
		}
		o.mutex.Unlock()
		if looked, err := s.checkOwners(ctx); looked {
			pause = pg.PauseAfterWork(pg.Failed(ctx, s.logs.owned, err), pause, s.poll)
		}
	}
}

// close tells everybody that the store is closed.
func (o *owners) close() {
	for w, tasks := range o.owned() {
		for _, task := range tasks {
			w.lost(task, ErrClosed)
		}
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.running = false
	for _, performance := range o.watched {
		for watched := range performance {
			watched.lose(ErrClosed)
		}
	}
}

// checkOwners tells those who have lost a performance. It reports whether there was anything to
// look at.
func (s *Store) checkOwners(ctx context.Context) (looked bool, err error) {
	asked := s.owners.owned()
	all := slices.Collect(maps.Keys(s.owners.performances(asked)))
	if len(all) == 0 {
		return false, nil
	}
	keys, claims := keysAndClaims(all)
	owned := map[performance]bool{}
	err = s.db.WithAnswerLimit().WithReserve(pg.Patient, 0).Run(ctx, pg.Step{
		Name: "still_owned", Args: []any{keys, claims, true}, Read: readPerformances(owned),
	})
	if err != nil {
		return true, err
	}
	for _, p := range all {
		if !owned[p] {
			s.owners.lost(p)
		}
	}
	for w, tasks := range asked {
		for _, task := range tasks {
			if !owned[task.performance()] {
				w.lost(task, ErrInvalidToken)
			}
		}
	}
	return true, nil
}

// splitSteps are the steps that split owned tasks, sorted by key, off the rows that they share with
// others.
func (s *Store) splitSteps(ctx context.Context, owned ...OwnedTask) []pg.Step {
	if !slices.ContainsFunc(owned, sharesRow) {
		return nil
	}
	keys, _ := keysAndClaims(performancesOf(owned))
	s.splitOff(ctx, singles(keys))
	return []pg.Step{splitLeased(singles(keys))}
}

// splitOff cuts owned tasks out of the rows of leased that they share with others, before the
// caller's transaction changes them: that transaction would lock their neighbours until it ends.
// The cut is made in a separate transaction, on a connection of the pool or the reserve. If neither
// can be had soon, or if that transaction fails, the caller's transaction cuts the tasks out
// itself, and others wait for it.
func (s *Store) splitOff(ctx context.Context, spans []span) {
	const lookEvery, runMax = 100 * time.Millisecond, 5 * time.Second
	if !s.db.InCallersTx() || len(spans) == 0 {
		return
	}
	hopeless := func() bool { return s.db.IsStarved(pg.Prompt) }
	if hopeless() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, runMax)
	defer cancel()
	acquiring, acquired := context.WithCancel(ctx)
	go func() {
		for acquiring.Err() == nil && !hopeless() { // otherwise the machine is only slow
			select {
			case <-time.After(lookEvery):
			case <-acquiring.Done():
			}
		}
		acquired()
	}()
	own, release, err := s.db.Outside().WithReserve(pg.Prompt, 0).Acquire(acquiring)
	acquired()
	if err != nil {
		return
	}
	defer release()
	_ = own.Run(ctx, pg.LimitWaiting(true)[0], splitLeased(spans)) // as said above
}

// splittableTasks looks for owned tasks that are to be split off.
func (s *Store) splittableTasks(ids []TaskID, shared *[]int64) []pg.Step {
	if !s.db.InCallersTx() || len(ids) == 0 {
		return nil
	}
	return []pg.Step{{
		Name: "splittable_tasks", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			var err error
			*shared, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	}}
}
