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

// Run performs tasks until ctx ends, and then stops as the package comment says. It returns nil
// after that, or [ErrStillRunning].
//
// While the database cannot be reached, Run tries again, with growing pauses. It also stops, in the
// same orderly way, on an error that cannot be fixed by trying again: a schema of the wrong version
// ([stint.ErrSchemaVersion]), a store that was closed ([stint.ErrClosed]), or a store that was
// derived with WithTx ([*stint.ArgumentError]). Run refuses a second call with [ErrStarted].
//
// Handlers get the values of ctx.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return fmt.Errorf("run worker: %w", ErrStarted)
	}
	defer w.failures.Flush()
	if err := newExecution(w).run(ctx); err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	return nil
}
