package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/stint-tasks/stint"
)

// Performed is the outcome of a performance.
type Performed struct {
	// Task is the task as it was fetched.
	Task stint.OwnedTask

	// Outcome says how the performance ended.
	Outcome Outcome

	// Result is the result that the handler returned. It counts only if the worker completed the
	// task, not if [Task.ReturnIn] did.
	Result Result

	// Err is the error of the handler.
	Err error
}

// PerformNext performs the first ready task, by priority and then by age, in the calling goroutine,
// and reports whether there was one. It returns when the task has been returned. The error is about
// owning the task; [Performed] has the error of the handler. PerformNext is for tests (see package
// stinttest) and for programs that perform the ready tasks and then exit; [Worker.Run] performs
// tasks side by side.
//
// As in Run, the lease is extended meanwhile, and the context of the handler ends for the same
// reasons. If ctx ends, the context of the handler ends at once, with [ErrStopping]. The actor is
// not registered. WithConcurrency has no effect.
//
// PerformNext may be called any number of times, also concurrently, before, during and after Run.
func (w *Worker) PerformNext(ctx context.Context) (performed Performed, ok bool, err error) {
	performed, ok, err = w.performNext(ctx)
	if err != nil {
		return performed, ok, fmt.Errorf("perform next: %w", err)
	}
	return performed, ok, nil
}

func (w *Worker) performNext(ctx context.Context) (Performed, bool, error) {
	owned, err := w.queue.OwnTasks(ctx, w.options.Actor, 1, w.names(), w.options.Lease)
	if err != nil || len(owned) == 0 {
		w.failures.Flush() // a program that performs what is ready ends now
		return Performed{}, false, err
	}
	until := now().Add(w.options.Lease) // a little too late, as in ask
	e := newExecution(w)
	e.waits.slots = 1
	base := context.WithoutCancel(ctx)
	begun := e.newPerformances(base, owned, until)
	p := begun[0]
	e.note(begun, until)
	var tending sync.WaitGroup
	tended, endTending := context.WithCancel(base)
	tending.Go(func() { e.keepLeases(tended) })
	tending.Go(func() { e.expireLeases(tended) })
	defer func() { // also if the handler ends the goroutine
		e.performing.Wait()
		endTending()
		tending.Wait()
	}()
	defer e.queue.WatchOwnership(e.owned, e.lose)()
	defer context.AfterFunc(ctx, func() {
		p.end(ErrStopping)
		close(e.stopped)
	})()
	e.perform(p)
	e.performing.Wait()
	return Performed{
		Task: owned[0], Outcome: p.outcome, Result: p.ending.result, Err: p.ending.err,
	}, true, nil
}
