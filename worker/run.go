package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// afterGraceMax is how long handlers may take to return after StopGrace, when their contexts
	// have ended.
	afterGraceMax = time.Second
	// presenceMax is how long a worker that starts waits until its actor is registered.
	presenceMax = time.Second
)

func newExecution(w *Worker) *execution {
	e := &execution{
		Worker: w, logger: w.options.Logger,
		stopped: make(chan struct{}), ended: endedQueue{changed: make(chan struct{}, 1)},
		held: map[stint.Token]*performance{}, sooner: make(chan struct{}, 1),
	}
	e.returns = e.newReturnGroup()
	e.releasing = outage.New(e.logger, "could not release tasks, and tries again")
	e.waits.slots = w.slots()
	return e
}

func (e *execution) run(ctx context.Context) error {
	// Handlers in their grace, heartbeats and returns outlive ctx.
	base := context.WithoutCancel(ctx)
	e.logger.LogAttrs(ctx, slog.LevelInfo, "worker starts",
		slog.String("actor", string(e.options.Actor)), slog.Any("actions", e.names()))

	e.warnOfPool(ctx)

	var tending sync.WaitGroup
	tended, endTending := context.WithCancel(base)
	registered := make(chan struct{})
	tending.Go(func() { e.attend(tended, registered) })
	tending.Go(func() { e.keepLeases(tended) })
	tending.Go(func() { e.expireLeases(tended) })
	defer e.queue.WatchOwnership(e.owned, e.lose)()
	// If the worker dies, tasks that it owned before it was registered are handed on only when
	// their leases expire.
	within(presenceMax, registered)
	begin := func(owned []stint.OwnedTask, until time.Time) { e.begin(base, owned, until) }
	e.gather(true)
	defer context.AfterFunc(ctx, func() { e.gather(false) })()
	err := newAsker(e, begin).loop(ctx)
	e.gather(false)
	e.logger.LogAttrs(ctx, slog.LevelInfo, "worker stops")
	err = errors.Join(err, e.stop())
	endTending()
	tending.Wait()
	e.logger.LogAttrs(ctx, slog.LevelInfo, "worker has stopped")
	return err
}

// gather has tasks of batches wait for others from now on, or no longer.
func (w *Worker) gather(open bool) {
	for _, of := range w.actions {
		if of.gatherer != nil {
			of.gatherer.setOpen(open)
		}
	}
}

// warnOfPool says if handlers that hold connections of the pool would wait for one another.
func (e *execution) warnOfPool(ctx context.Context) {
	store, ok := e.queue.(txQueue)
	slots := e.calls()
	if !ok || slots <= store.PoolSize() {
		return
	}
	e.logger.LogAttrs(ctx, slog.LevelWarn, "the worker has more slots than its pool has "+
		"connections: handlers that use the pool wait for one another; if they do, set "+
		"worker.Options.Concurrency, or pool_max_conns of the pool",
		slog.Int("slots", slots), slog.Int("connections", store.PoolSize()))
}

// slots is how many tasks can be performed at once.
func (w *Worker) slots() int {
	slots := 0
	for _, of := range w.actions {
		slots += w.slotsOf(of)
	}
	return min(slots, w.options.Concurrency)
}

// calls is how many handlers can run at once: as many as slots, but a call for a batch is one.
func (w *Worker) calls() int {
	calls := 0
	for _, of := range w.actions {
		n := w.slotsOf(of)
		if of.gatherer != nil && !of.gatherer.ByKey {
			n = (n + of.gatherer.Size - 1) / of.gatherer.Size
		}
		calls += n
	}
	return min(calls, w.options.Concurrency)
}

// slotsOf is how many tasks of an action can be performed at once.
func (w *Worker) slotsOf(of *handling) int {
	if of.concurrency == 0 {
		return w.options.Concurrency
	}
	return min(of.concurrency, w.options.Concurrency)
}

// stop waits for the performances under way, first for the grace, then for a moment more.
func (e *execution) stop() error {
	e.leaveBy = now().Add(attemptMax)
	idle := make(chan struct{})
	go func() {
		e.performing.Wait()
		close(idle)
	}()
	if !within(e.options.StopGrace, idle) {
		for _, p := range e.performances() {
			p.end(ErrStopping)
		}
		if !within(afterGraceMax, idle) {
			close(e.stopped)
			e.leaveBy = now().Add(attemptMax)
			for _, p := range e.performances() {
				go e.settle(p, p.unwaited(errWaited, context.Cause(p.ctx)))
			}
			<-idle
		}
	}
	if left := e.handlers.Load(); left > 0 {
		return fmt.Errorf("%w: %d", ErrStillRunning, left)
	}
	return nil
}

// within reports whether done was closed before d had passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// attend keeps the actor registered until ctx ends, so that others soon notice if the worker dies.
// It closes registered when the actor is registered, or cannot be.
func (e *execution) attend(ctx context.Context, registered chan<- struct{}) {
	err := e.register(ctx)
	close(registered)
	if err != nil {
		return
	}
	<-ctx.Done()
	// Where the server has answered nothing else, it will not answer this either.
	const shortest = 100 * time.Millisecond
	left := max(e.leaveBy.Sub(now()), shortest)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
	defer cancel()
	err = e.queue.UnregisterActor(ctx, e.options.Actor)
	if err != nil && !errors.Is(err, stint.ErrClosed) {
		e.logger.LogAttrs(ctx, slog.LevelWarn, "could not unregister the actor",
			slog.Any("error", err))
	}
}

// register registers the actor, again and again unless that is hopeless.
func (e *execution) register(ctx context.Context) error {
	outages := outage.New(e.logger, "could not register the actor")
	for try := 1; ; try++ {
		err := e.queue.RegisterActor(ctx, e.options.Actor, e.names())
		if err == nil {
			outages.Worked(ctx)
			return nil
		}
		if ctx.Err() != nil || hopeless(err) {
			return err
		}
		outages.Failed(ctx, err)
		if !sleep(ctx, reconnect().pause(try)) {
			return ctx.Err()
		}
	}
}
