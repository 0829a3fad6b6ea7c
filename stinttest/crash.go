package stinttest

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

var (
	//go:embed sql/end_sessions.sql
	endSessions string
	//go:embed sql/pass_pause.sql
	passPause string
)

// TryEveryCrash checks that a handler survives every crash of its process. It has the task
// performed once, to its end, and counts what the handler says: each statement, through
// [Process.Pool] or [Process.Store], and each call that it makes by [Process.Call]. The statements
// by which the worker returns the task count as well. Then it has the task performed again for each
// of these, by a process that dies just before, so that nobody heard it, and by one that dies just
// after, so that it took effect and the answer is lost: that is the commit that nobody knows of.
// When a process has died, what it had not committed is undone, its lease expires, and another one
// performs the task to its end. Then check is called. TryEveryCrash returns the crashes, in their
// order; the test fails with all that check does not accept, and what it says of each.
//
// Handler is called when a process begins, and makes the handler from it as the program would: what
// it keeps in memory is lost with the process. Each performance has a task of its own, like task,
// which must have no ID, so check finds the effects of one by its ID:
//
//	stinttest.TryEveryCrash(t, store, stint.Task{Action: "bill"},
//		func(p *stinttest.Process) worker.Registration {
//			return worker.Handle("bill", bill(p.Pool, payments{p, bank}))
//		},
//		func(ctx context.Context, task stint.TaskInfo) error {
//			if n := bank.charges(task.ID); n != 1 {
//				return fmt.Errorf("%d charges", n)
//			}
//			return nil
//		})
//
// Check gets the task as it has ended, perhaps aborted; with [stint.KeepNone] only its ID. Tasks
// with the action that the handler inserts are performed as well, and crash as well. Pauses and
// sleeps are skipped. No other task with the action may be ready. The test also fails if check does
// not accept a performance without a crash, or a task does not end.
//
// A process dies within the test: from then on its calls, statements and connections fail, the
// context of the handler ends, and TryEveryCrash waits until the handler has returned, so a handler
// must return when its context has ended. What it does meanwhile by other ways, such as in the
// memory of the test or by another pool, is neither seen nor prevented. Nor are these tried: a
// crash of the process that takes over, or within a batch or a COPY; an owner that hangs and goes
// on late; a crash of the server. [Process.Program] tries programs of "stint worker"; workers in
// other languages are not tried. If a handler makes calls side by side, their order may vary, and
// some crashes be missed. The role of the pool must be allowed to end its own sessions, as it is by
// default, and the pool must lead to the server itself, not to a pooler.
func TryEveryCrash(
	tb testing.TB, store *Store, task stint.Task,
	handler func(p *Process) worker.Registration,
	check func(ctx context.Context, task stint.TaskInfo) error,
) (crashes []string) {
	tb.Helper()
	t := &crashTest{store: store, task: task, handler: handler, check: check}
	failed, err := t.run(tb.Context())
	if err != nil {
		tb.Fatalf("TryEveryCrash: %v", err)
	}
	if len(failed) > 0 {
		tb.Fatalf("TryEveryCrash: the handler does not survive %d of %d crashes:\n\t%s",
			len(failed), len(t.crashes), strings.Join(failed, "\n\t"))
	}
	return t.crashes
}

// A crashTest is a call of TryEveryCrash.
type crashTest struct {
	store   *Store
	task    stint.Task
	handler func(*Process) worker.Registration
	check   func(context.Context, stint.TaskInfo) error

	crashes []string
	// ended is the task of the performance as it has ended.
	ended stint.TaskInfo
}

// run returns the crashes that check does not accept, with what it says.
func (t *crashTest) run(ctx context.Context) (failed []string, err error) {
	if t.task.ID != "" {
		return nil, errors.New("the task must have no ID: each performance has one of its own")
	}
	first, err := t.perform(ctx, never)
	if err != nil {
		return nil, fmt.Errorf("without a crash: %w", err)
	}
	if err := t.check(ctx, t.ended); err != nil {
		return nil, fmt.Errorf("without a crash: %w", err)
	}
	for at := range 2 * len(first.said) {
		p, err := t.perform(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("crash %d: %s: %w", at+1, p.death, err)
		}
		if p.death == "" { // it said less than the first time
			p.death = "none, since the handler did less"
		}
		t.crashes = append(t.crashes, p.death)
		if err := t.check(ctx, t.ended); err != nil {
			failed = append(failed, fmt.Sprintf("%d: %s: %v", at+1, p.death, err))
		}
	}
	return failed, nil
}

// perform has a task performed to its end, by a process that dies at an instant and, if it does, by
// another one.
func (t *crashTest) perform(ctx context.Context, at int) (*Process, error) {
	task := t.task
	task.ID = stint.TaskID("crash/" + rand.Text())
	t.ended = stint.TaskInfo{ID: task.ID}
	p := &Process{at: at}
	if err := t.store.InsertTasks(ctx, []stint.Task{task}); err != nil {
		return p, err
	}
	ended, err := t.live(ctx, p)
	if err == nil && !ended {
		_, err = t.live(ctx, &Process{at: never})
	}
	return p, err
}

// live runs a process until it dies or the task has ended, and reports whether it has ended.
func (t *crashTest) live(ctx context.Context, p *Process) (ended bool, err error) {
	life, kill := context.WithCancel(ctx)
	p.kill, p.gone = kill, make(chan struct{})
	if err := p.start(ctx, t.store); err != nil {
		kill()
		return false, err
	}
	gone := make(chan error, 1)
	context.AfterFunc(life, func() { gone <- t.store.endSessions(context.WithoutCancel(ctx), p) })
	defer func() { // also if the handler ends the goroutine
		p.die()
		err = errors.Join(err, <-gone, p.stop(ctx))
	}()
	handler := t.handler(p)
	if p.unusable != nil {
		return false, p.unusable
	}
	w, err := worker.New(p.Store, worker.Options{
		Lease: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Middleware: []worker.Middleware{p.watched},
	}, handler)
	if err != nil {
		return false, err
	}
	for range performancesMax {
		_, performed, err := w.PerformNext(life)
		if p.rest() {
			return false, nil
		}
		if err == nil && !performed {
			ended, err = t.goOn(ctx)
		}
		if err != nil || ended {
			return ended, err
		}
	}
	return false, fmt.Errorf("more than %d performances", performancesMax)
}

// goOn lets the time pass that a task waits for when nothing is ready, and reports whether it has
// ended.
func (t *crashTest) goOn(ctx context.Context) (ended bool, err error) {
	ids := []stint.TaskID{t.ended.ID}
	infos, err := t.store.GetTasks(ctx, ids)
	if errors.Is(err, stint.ErrTaskNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	switch state := infos[0].State; state {
	case stint.StateCompleted, stint.StateAborted:
		t.ended = infos[0]
		return true, nil
	case stint.StateScheduled:
		if _, err := t.store.Pool.Exec(ctx, t.store.in(passPause), t.ended.ID); err != nil {
			return false, err
		}
		return false, t.store.age(ctx, makeDue, "not scheduled", ids)
	case stint.StateInProgress:
		return false, t.store.age(ctx, expireLeases, "not in-progress", ids)
	default:
		return false, fmt.Errorf("the task is %s, and the handler is not called for it", state)
	}
}

// endSessions ends the sessions of a process that has died, and asks until the server has done so.
func (s *Store) endSessions(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, endMax)
	defer cancel()
	for {
		tag, err := s.Pool.Exec(ctx, endSessions, p.sessions())
		if err != nil {
			return fmt.Errorf("end the sessions of a process: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
	}
}

// endMax is how long the sessions of a process may take to end.
const endMax = 10 * time.Second
