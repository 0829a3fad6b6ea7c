package stint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/waits"
)

// waitedTasksMax is how many of the tasks that are waited for one look covers.
const waitedTasksMax = 1000

// WaitForTask waits until a task has finished, and returns what the store then knows about it,
// including the result. If the task has finished already, it returns at once. To wait for a whole
// network of tasks, wait for one that waits for all the others.
//
// The task must have been inserted with PostResult; otherwise the error is [ErrNoPostResult]. If
// there is no such task, or it is deleted meanwhile, it is [ErrTaskNotFound]. Either comes in a
// [*TaskError] (R19). A task that is replaced meanwhile is reported as aborted with
// [CauseReplaced], whatever happens to the task that replaced it (R5). If the store is closed
// meanwhile, the error is [ErrClosed]. In a transaction the call is refused with an
// [*ArgumentError] (R21): it would keep the transaction open, and wait for tasks that the
// transaction may itself hold up.
//
// Any number of goroutines may wait; together they need one connection, which does not come from
// the pool. A lost notification costs [Options.PollInterval]. While the database cannot be reached,
// the call keeps waiting. It changes nothing, so it may be cancelled and repeated.
func (s *Store) WaitForTask(ctx context.Context, id TaskID) (TaskInfo, error) {
	infos, _, err := s.waitForTasks(ctx, []TaskID{id}, valueBytesMax)
	if err != nil {
		return TaskInfo{}, fmt.Errorf("wait for task: %w", err)
	}
	return infos[0], nil
}

// WaitForTasks is [Store.WaitForTask] for many tasks: it waits until all of them have finished and
// returns them in the order asked. If one cannot be waited for, or is deleted meanwhile, it returns
// the error at once; the [*TaskError] names every such task.
func (s *Store) WaitForTasks(ctx context.Context, ids []TaskID) ([]TaskInfo, error) {
	infos, _, err := s.waitForTasks(ctx, ids, valueBytesMax)
	if err != nil {
		return nil, fmt.Errorf("wait for tasks: %w", err)
	}
	return infos, nil
}

func (s *Store) waitForTasks(
	ctx context.Context, ids []TaskID, most int,
) (infos []TaskInfo, left int64, err error) {
	if s.db.InTx() {
		return nil, 0, argumentError("store",
			"must not be in a transaction, where the wait would never end")
	}
	if err := checkIDs(ids); err != nil {
		return nil, 0, err
	}
	if len(ids) == 0 {
		return nil, 0, s.db.CheckOpen(ctx)
	}
	s.session.Listen(kindFinished)
	found, err := s.findTasks(ctx, ids, most)
	if err != nil {
		return nil, 0, err
	}
	if err := waitable(ids, found); err != nil {
		return nil, 0, err
	}
	defer waits.Begin(ctx, s, ids)()
	finished := make(chan waitOutcome, len(found))
	var waiters []*waiter
	for _, task := range found {
		if !task.info.final() {
			waiters = append(waiters, &waiter{task: task, most: most, finished: finished})
		}
	}
	defer s.waiting.leave(waiters)
	if !s.join(waiters) {
		return nil, 0, ErrClosed
	}
	for range waiters {
		select {
		case outcome := <-finished:
			if outcome.err != nil {
				return nil, 0, outcome.err
			}
			task := found[outcome.info.ID]
			found[outcome.info.ID] = foundTask{info: outcome.info, left: task.left + outcome.left}
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-s.db.Closing():
			return nil, 0, ErrClosed
		}
	}
	infos = make([]TaskInfo, len(ids))
	for i, id := range ids {
		infos[i], left = found[id].info, left+found[id].left
	}
	return infos, left, nil
}

// waitable returns an error if some of the tasks cannot be waited for.
func waitable(ids []TaskID, found map[TaskID]foundTask) error {
	var missing, silent []TaskID
	for _, id := range ids {
		task, ok := found[id]
		switch {
		case !ok:
			missing = append(missing, id)
		case !task.info.PostResult:
			silent = append(silent, id)
		}
	}
	switch {
	case len(missing) > 0:
		return taskError(missing, ErrTaskNotFound)
	case len(silent) > 0:
		return taskError(silent, ErrNoPostResult)
	}
	return nil
}

func (info *TaskInfo) final() bool {
	return info.StatusCode == StatusCompleted || info.StatusCode == StatusAborted
}

// A waiter is a call that waits for a task.
type waiter struct {
	task     foundTask
	most     int                // how long a result may be that it wants
	finished chan<- waitOutcome // has room for the outcome
}

type waitOutcome struct {
	info TaskInfo
	left int64 // how many bytes its result has, if it was not read
	err  error
}

// waiting holds the waiters for each task, by key.
type waiting struct {
	mutex   sync.Mutex
	waiters map[int64]map[*waiter]bool
	// woken are the keys of tasks that may have finished.
	woken   map[int64]bool
	wake    chan struct{}
	running bool
}

// join makes waiters wait. Their tasks are looked at once more, since they may have finished before
// anybody was told that somebody waits. It reports whether the store is open.
func (s *Store) join(waiters []*waiter) bool {
	if len(waiters) == 0 {
		return true
	}
	w := &s.waiting
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waiters == nil {
		w.waiters, w.woken = map[int64]map[*waiter]bool{}, map[int64]bool{}
		w.wake = make(chan struct{}, 1)
	}
	for _, joining := range waiters {
		key := joining.task.key
		if w.waiters[key] == nil {
			w.waiters[key] = map[*waiter]bool{}
		}
		w.waiters[key][joining] = true
		w.woken[key] = true
	}
	pg.WakeUp(w.wake)
	w.running = w.running || s.db.StartBackground(s.watchWaited)
	return w.running
}

// leave forgets waiters, also those that have had their outcome.
func (w *waiting) leave(waiters []*waiter) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, leaving := range waiters {
		key := leaving.task.key
		delete(w.waiters[key], leaving)
		if len(w.waiters[key]) == 0 {
			delete(w.waiters, key)
			delete(w.woken, key)
		}
	}
}

// finished tells that tasks may have finished.
func (w *waiting) finished(keys []int64) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, key := range keys {
		if len(w.waiters[key]) > 0 {
			w.woken[key] = true
		}
	}
	if len(w.woken) > 0 {
		pg.WakeUp(w.wake)
	}
}

// finishedAny tells that any task may have finished.
func (w *waiting) finishedAny() {
	w.mutex.Lock()
	keys := slices.Collect(maps.Keys(w.waiters))
	w.mutex.Unlock()
	w.finished(keys)
}

// watchWaited looks at the tasks that are waited for: at those that are said to have finished, and
// at all of them once an interval. It ends when nobody waits.
func (s *Store) watchWaited(ctx context.Context) {
	w := &s.waiting
	pause := s.poll
	poll := time.NewTimer(pg.Around(pause))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-poll.C:
			w.finishedAny()
			poll.Reset(pg.Around(pause))
		}
		w.mutex.Lock()
		keys := slices.Sorted(maps.Keys(w.woken))
		clear(w.woken)
		if len(w.waiters) == 0 {
			w.running = false
			w.mutex.Unlock()
			return
		}
		w.mutex.Unlock()
		for chunk := range slices.Chunk(keys, waitedTasksMax) {
			err := s.on(s.db.WithAnswerLimit()).checkWaited(ctx, chunk)
			failed := pg.Failed(ctx, s.logs.waited, err)
			pause = pg.PauseAfterWork(failed, pause, s.poll)
			if failed {
				break
			}
		}
	}
}

// checkWaited gives those who wait for one of the tasks the outcome, if there is one.
func (s *Store) checkWaited(ctx context.Context, keys []int64) error {
	return s.db.Run(ctx, pg.Step{
		Name: "waited_tasks", Args: []any{keys, s.pieceBytes, s.waiting.mosts(keys)},
		Read: func(rows pgx.Rows) error {
			var result []byte
			for rows.Next() {
				var key int64
				var end ending
				var size *int
				var begins int
				var piece []byte
				err := rows.Scan(&key, &end.cause, &end.tries, &end.actor, &end.at, &end.status,
					&size, &begins, &piece, &end.unwanted)
				if err != nil {
					return err
				}
				if begins == 0 {
					result = nil
				}
				if size != nil {
					result = append(slices.Grow(result, *size-len(result)), piece...)
				}
				if size == nil || len(result) == *size {
					end.result = result
					s.waiting.deliver(key, end)
				}
			}
			return rows.Err()
		},
	})
}

// An ending is a row of the table finished; its cause is nil if the task was deleted instead.
type ending struct {
	cause         *int16
	tries         *int
	actor, status *string
	at            pgtype.Timestamptz
	result        []byte
	unwanted      *int // how long the result is, if it was not read
}

// mosts returns for each task how long its result may be for one who waits for it.
func (w *waiting) mosts(keys []int64) []int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	mosts := make([]int, len(keys))
	for i, key := range keys {
		for waiter := range w.waiters[key] {
			mosts[i] = max(mosts[i], waiter.most)
		}
	}
	return mosts
}

func (w *waiting) deliver(key int64, end ending) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for waiter := range w.waiters[key] {
		if end.unwanted != nil && *end.unwanted <= waiter.most {
			continue // it came during the look, so there is another one
		}
		waiter.finished <- end.outcome(waiter.task.info)
		delete(w.waiters[key], waiter)
	}
	if len(w.waiters[key]) == 0 {
		delete(w.waiters, key)
	}
}

// outcome is what a waiter is told of a task; info describes the task when it was still unfinished.
func (e ending) outcome(info TaskInfo) waitOutcome {
	if e.cause == nil || e.tries == nil {
		return waitOutcome{err: &TaskError{IDs: []TaskID{info.ID}, Err: ErrTaskNotFound}}
	}
	info.NotBefore, info.LeaseUntil, info.Progress = time.Time{}, time.Time{}, 0
	info.Actor, info.Status = "", ""
	info.Tries, info.Result = *e.tries, e.result
	if e.actor != nil {
		info.Actor = ActorID(*e.actor)
	}
	if e.status != nil {
		info.Status = *e.status
	}
	info.place(stateCompleted+*e.cause, finite(e.at))
	outcome := waitOutcome{info: info}
	if e.unwanted != nil {
		outcome.left = int64(*e.unwanted)
	}
	return outcome
}

// contendedPause is how long an owner waits before it looks again for tasks that others were just
// taking. It doubles each time.
const contendedPause = time.Millisecond

// WaitToOwnTasks is [Store.OwnTasks], but waits until at least one task is ready. It is woken when
// such tasks are inserted or become ready, when scheduled ones are due and when leases expire.
// Besides, one of the calls that wait at a store for the same actions polls every
// [Options.PollInterval]. An answer is cut at 8 MiB of bodies as there.
//
// It returns when it has tasks, when ctx ends, or with [ErrClosed] when the store is closed. Other
// errors, such as that the database cannot be reached, are returned at once, and so is that it does
// not answer for ten seconds, or that the pool has a connection for nobody for as long. In a
// transaction the call is refused with an [*ArgumentError], since it would keep the transaction
// open.
func (s *Store) WaitToOwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	owned, err := s.waitToOwnTasks(ctx, ownRequest{
		actor: actor, maxTasks: maxTasks, actions: actions, lease: lease,
	})
	if err != nil {
		return nil, fmt.Errorf("wait to own tasks: %w", err)
	}
	return owned, nil
}

func (s *Store) waitToOwnTasks(ctx context.Context, request ownRequest) ([]OwnedTask, error) {
	if s.db.InTx() {
		return nil, argumentError("store",
			"must not be in a transaction, where the wait would never end")
	}
	if err := request.check(); err != nil {
		return nil, err
	}
	request.awaits = true
	actions := request.actions
	topics := make([]string, len(actions))
	for i, action := range actions {
		topics[i] = readyTopic(action)
	}
	w := s.awaiting.Join(actions)
	defer s.awaiting.Leave(actions, w)
	retry := contendedPause
	for {
		s.awaiting.Look(w)
		answer, err := s.ownTasks(ctx, request)
		if err != nil || len(answer.tasks) > 0 {
			s.awaiting.ReadyForMore(actions)
			return answer.tasks, err
		}
		s.session.Listen(topics...)
		var look <-chan time.Time
		if answer.next.pause != nil {
			look = time.After(min(pg.Around(s.poll), *answer.next.pause+time.Millisecond))
		}
		if answer.next.contended { // nobody is told of the tasks that they leave
			look = time.After(pg.Around(retry))
			retry = min(2*retry, s.poll)
		} else {
			retry = contendedPause
		}
		partial := answer.next.partial && !answer.next.contended
		if !s.awaiting.Await(ctx, w, pg.Around(s.poll), look, partial, s.db.Closing()) {
			return nil, cmp.Or(ctx.Err(), ErrClosed)
		}
	}
}
