package stint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/duty"
	"github.com/stint-tasks/stint/internal/ends"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/waiters"
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
// the pool. A lost notification costs one and a quarter [Options.PollInterval] at most. While the
// database cannot be reached, the call keeps waiting. It changes nothing, so it may be cancelled
// and repeated.
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
	if err := s.outsideTx(", where the wait would never end"); err != nil {
		return nil, 0, err
	}
	if err := checkIDs(ids); err != nil {
		return nil, 0, err
	}
	if len(ids) == 0 {
		return nil, 0, s.db.CheckOpen(ctx)
	}
	s.session.Listen(kindFinished)
	found, err := s.on(s.db.AtPrimaryIfChanged()).findTasks(ctx, ids, most)
	if err != nil {
		return nil, 0, err
	}
	if err := waitable(ids, found); err != nil {
		return nil, 0, err
	}
	defer callctx.BeginWait(ctx, s, ids)()
	finished := make(chan waitOutcome, len(found))
	var waiters []*waiter
	for _, task := range found {
		if !task.info.final() {
			waiters = append(waiters, &waiter{task: task, most: most, finished: finished})
		}
	}
	defer s.waiting.Leave(waiters, (*waiter).key)
	if !s.waiting.Join(waiters, (*waiter).key, s.startWatching) {
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
	return info.State == StateCompleted || info.State == StateAborted || info.State == StateSkipped
}

// A waiter is a call that waits for a task.
type waiter struct {
	task     foundTask
	most     int                // how long a result may be that it wants
	finished chan<- waitOutcome // has room for the outcome
}

func (w *waiter) key() int64 { return w.task.key }

type waitOutcome struct {
	info TaskInfo
	left int64 // how many bytes its result has, if it was not read
	err  error
}

func (s *Store) startWatching() bool { return s.db.StartBackground(s.watchWaited) }

// watchWaited looks at the tasks that are waited for: at those that are said to have finished, and
// at all of them once an interval. It ends when nobody waits.
func (s *Store) watchWaited(ctx context.Context) {
	pause := s.poll
	poll := time.NewTimer(pg.Around(pause))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.waiting.Wake:
		case <-poll.C:
			s.waiting.WokenAny()
			poll.Reset(pg.Around(pause))
		}
		keys, goesOn := s.waiting.Take()
		if !goesOn {
			return
		}
		for chunk := range slices.Chunk(keys, waitedTasksMax) {
			err := s.on(s.db.AtPrimaryIfChanged().WithAnswerLimit()).checkWaited(ctx, chunk)
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
		Name: "waited_tasks", Args: []any{keys, s.pieceBytes, s.mostWanted(keys)},
		Read: func(rows pgx.Rows) error {
			var result []byte
			for rows.Next() {
				var key int64
				var end ending
				var size *int
				var begins int
				var piece []byte
				err := rows.Scan(&key, &end.cause, &end.tries, &end.actor, &end.at, &end.status,
					&size, &begins, &piece, &end.unwanted, &end.ownedAt)
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
					s.deliver(key, end)
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
	at, ownedAt   pgtype.Timestamptz
	result        []byte
	unwanted      *int // how long the result is, if it was not read
}

// mostWanted returns for each task how long its result may be for one who waits for it.
func (s *Store) mostWanted(keys []int64) []int {
	mosts := make([]int, len(keys))
	for i, key := range keys {
		s.waiting.Each(key, func(w *waiter) bool {
			mosts[i] = max(mosts[i], w.most)
			return false
		})
	}
	return mosts
}

func (s *Store) deliver(key int64, end ending) {
	s.waiting.Each(key, func(w *waiter) bool {
		if end.unwanted != nil && *end.unwanted <= w.most {
			return false // it came during the look, so there is another one
		}
		w.finished <- end.outcome(w.task.info)
		return true
	})
}

// outcome is what a waiter is told of a task; info describes the task when it was still unfinished.
func (e ending) outcome(info TaskInfo) waitOutcome {
	if e.cause == nil || e.tries == nil {
		return waitOutcome{err: &TaskError{IDs: []TaskID{info.ID}, Err: ErrTaskNotFound}}
	}
	info.NotBefore, info.LeaseUntil, info.OwnedAt = time.Time{}, time.Time{}, finite(e.ownedAt)
	info.Actor, info.Status, info.Progress, info.Signals = "", "", 0, info.TotalDependencies
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

// EndsNow is a cursor for [Store.Ends] that leaves out what has ended so far.
const EndsNow Cursor = "now"

// An EndPage is an answer of [Store.Ends].
type EndPage struct {
	// Tasks are those that have ended, by [TaskInfo.FinishedAt], without their bodies. One that is
	// retried comes again when it ends again.
	Tasks []TaskInfo

	// Large are those of the tasks whose results have more than 1 MiB. They come without:
	// [Store.GetTasks] has them.
	Large []TaskID

	// Next is the cursor for the next call. It moves on even if there are no tasks.
	Next Cursor

	// Until is how far the pages have come, on the database's clock: all ends before it have been
	// told. It is zero at the very beginning.
	Until time.Time
}

// Ends returns the tasks of some actions, of all if none is named, that have ended since a cursor,
// in the order of their ends: completed, aborted or skipped, with results and causes. If there are
// none, it waits for at most wait, or a second if there are some that cannot be told yet. The
// caller keeps [EndPage.Next] when it has done with a page, and passes it to the next call, in any
// process: so it gets each end at least once, and none before it is committed. The empty cursor is
// before all ends that are still in the store, [EndsNow] behind them: a call with it returns soon.
//
// A page has 1,000 tasks at most, and about 4 MiB of results and texts. An end is told when no
// transaction can commit an earlier one any more. So while a transaction is open that has ended a
// task, such as one of [Store.WithTx], Ends tells nothing that ended since it began to;
// [EndPage.Until] says how far it is behind. Prepared transactions of
// that kind cannot be told apart: it tells nothing until there is none for a moment. Otherwise it
// takes some milliseconds for tasks with PostResult, and up to twice [Options.PollInterval] for
// others, of which nobody is notified.
//
// Ends tells what is in the store. If tasks that ended behind the cursor have been pruned, perhaps
// of other actions, the error is [ErrEndsPruned]: begin with an empty cursor, and look after what
// may be missing. So keep finished tasks for longer than anybody may be away who follows. Tasks
// that leave nothing, by [KeepNone], and those that were replaced are not told. Nor are ends that
// somebody has undone before Ends came to them, by RetryTasks or DeleteTasks. If the clock is set
// back, ends may be told once more; if it is by less than a poll, some that follow may be missed.
//
// It changes nothing, so it may be cancelled and repeated. In a transaction the call is refused
// with an [*ArgumentError]. If the store is closed meanwhile, the error is [ErrClosed].
func (s *Store) Ends(
	ctx context.Context, actions []string, from Cursor, wait time.Duration,
) (EndPage, error) {
	page, err := s.ends(ctx, actions, from, wait)
	if err != nil {
		return EndPage{}, fmt.Errorf("ends: %w", err)
	}
	return page, nil
}

func (s *Store) ends(
	ctx context.Context, actions []string, from Cursor, wait time.Duration,
) (page EndPage, err error) {
	if err := s.outsideTx(", whose end others may wait for"); err != nil {
		return page, err
	}
	place, ok := ends.ParsePlace(string(from))
	switch {
	case from == EndsNow:
		place = ends.First()
	case !ok:
		return page, argumentError("from", "must be the Next of a page")
	case wait < 0:
		return page, argumentError("wait", "must not be negative")
	case len(actions) > actionsMax:
		return page, tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return page, at(err, i, "")
		}
	}
	s.session.Listen(kindFinished)
	found := ends.Page[TaskInfo]{
		DB: s.db.AtPrimary(), Bound: &s.endBound, News: &s.endNews, Poll: s.poll, Closed: ErrClosed,
		Read: func(row pgx.Rows, more ...any) (TaskInfo, time.Time, error) {
			info, err := readInfo(row, more...)
			return info, info.FinishedAt, err
		},
		Place: place,
	}
	found.Actions = append(found.Actions, actions...) // nil, which is null, for all
	if from == EndsNow {
		err = found.BeginNow(ctx)
	} else {
		err = found.Wait(ctx, wait)
	}
	page = EndPage{
		Tasks: found.Tasks, Next: Cursor(found.Place.Cursor()), Until: found.Place.Time(),
	}
	for i := range found.Large {
		page.Large = append(page.Large, found.Large[i].ID)
	}
	return page, err
}

// contendedPause is how long an owner waits before it looks again for tasks that others were just
// taking. It doubles each time.
const contendedPause = time.Millisecond

// WaitToOwnTasks is [Store.OwnTasks], but waits until at least one task is ready. It is woken when
// such tasks are inserted or become ready, when scheduled ones are due and when leases expire.
// Besides, the store polls every [Options.PollInterval] for all calls that wait, unless another one
// looks for all stores. An answer is cut at 8 MiB of bodies as there.
//
// It returns when it has tasks, when ctx ends, or with [ErrClosed] when the store is closed. Other
// errors, such as that the database cannot be reached, are returned at once, and so is that it does
// not answer for ten seconds, or that the pool has a connection for nobody for as long. In a
// transaction the call is refused with an [*ArgumentError], since it would keep the transaction
// open.
func (s *Store) WaitToOwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	request := ownRequest{Want: Want{actor, maxTasks, actions, lease}}
	owned, err := s.waitToOwnTasks(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("wait to own tasks: %w", err)
	}
	return owned, nil
}

func (s *Store) waitToOwnTasks(ctx context.Context, request ownRequest) ([]OwnedTask, error) {
	if err := s.outsideTx(", where the wait would never end"); err != nil {
		return nil, err
	}
	if err := request.check(); err != nil {
		return nil, err
	}
	request.awaits = true
	actions := request.Actions
	topics := make([]string, len(actions))
	for i, action := range actions {
		topics[i] = readyTopic(action)
	}
	waiting := callctx.End(ctx)
	w := s.awaiting.Join(actions)
	defer s.awaiting.Leave(actions, w)
	s.poller.Start(s.db.StartBackground)
	retry := contendedPause
	if rest := s.awaiting.EmptyFor(actions); rest > 0 && s.session.ListensToAll() {
		// The last fetch took all that was ready, so one more would be made in vain.
		s.awaiting.Look(w)
		if err := s.awaitReady(waiting, w, time.After(rest), true); err != nil {
			return nil, err
		}
	}
	for {
		if err := waiting.Err(); err != nil {
			return nil, err
		}
		s.awaiting.Look(w)
		answer, err := s.ownTasks(ctx, request)
		if err != nil || len(answer.tasks) > 0 {
			s.awaiting.ReadyForMore(actions)
			return answer.tasks, err
		}
		s.session.Listen(topics...)
		if answer.next.due != nil {
			s.poller.DueIn(*answer.next.due)
		}
		var look <-chan time.Time
		if answer.next.contended { // nobody is told of the tasks that they leave
			look = time.After(pg.Around(retry))
			retry = min(2*retry, s.poll)
		} else {
			retry = contendedPause
			if pause := answer.next.pause; pause != nil {
				look = time.After(*pause + time.Millisecond)
			}
		}
		if err := s.awaitReady(waiting, w, look, !answer.next.contended); err != nil {
			return nil, err
		}
	}
}

// isWaitedFor reports whether somebody waits for tasks of a topic.
func (s *Store) isWaitedFor(topic string) bool {
	return s.awaiting.Waited(strings.TrimPrefix(topic, readyTopic("")))
}

// awaitReady waits until it is time to look for tasks.
func (s *Store) awaitReady(
	ctx context.Context, w *waiters.Waiter, look <-chan time.Time, shared bool,
) error {
	looks, err := s.awaiting.Await(ctx, w, look, shared, s.db.Closing())
	if looks {
		return nil
	}
	return cmp.Or(err, ctx.Err(), ErrClosed)
}

// pollReady looks for tasks on behalf of all who wait with one of the actions. If settle, it first
// makes tasks ready that are due, or whose leases have expired.
func (s *Store) pollReady(
	ctx context.Context, actions []string, settle bool,
) (found waiters.Poll, err error) {
	const attempts = 2 // a connection may have been broken for long
	for range attempts {
		found, err = s.pollOnce(ctx, actions, settle)
		if !pg.WasCutOff(err) || errors.Is(err, pg.ErrSilent) {
			break
		}
	}
	return found, err
}

func (s *Store) pollOnce(
	ctx context.Context, actions []string, settle bool,
) (found waiters.Poll, err error) {
	scan := s.queues.ScanAll(actions)
	var next nextDue
	scheduled, leases := scanScheduled(), s.scanLeases(reclaimedLeaseMax)
	var steps []pg.Step
	if settle {
		steps = []pg.Step{scheduled.step(), leases.step()}
	}
	steps = append(steps, duty.ReadyStep(scan.Actions, scan.From, scan.To, &found.Ready),
		pg.Step{
			Name: "next_due", Args: []any{[]string{}, 0, []int64{}, []int64{}, true, scan.Whole},
			Read: next.read,
		})
	if !s.session.ListensToAll() { // no session says who waits
		steps = append(steps, s.stats.Asked(s.db, actions)...)
	}
	if err := s.db.WithAnswerLimit().Unhurried().Run(ctx, steps...); err != nil {
		return waiters.Poll{}, err
	}
	s.queues.Scanned(scan)
	pending := &pg.Notices{}
	s.addNotices(scheduled, pending)
	s.addNotices(leases, pending)
	s.db.Notify(ctx, pending)
	found.Pause = next.due
	found.Overdue = next.overdue && (!settle || scheduled.done+leases.done > 0)
	return found, nil
}
