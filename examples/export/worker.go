package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

const (
	batchMax = 32
	// returnEvery is how long a task that is done may wait for the others of its batch.
	returnEvery = time.Second
	// idlePause is how long a worker waits before it asks again.
	idlePause = 200 * time.Millisecond
)

// A worker owns tasks, copies the files they name, and returns them.
type worker struct {
	store   *stint.Store
	copier  *copier
	ledger  *ledger
	actor   stint.ActorID
	actions []string
	lease   time.Duration
	batch   int
}

// work runs the workers until no task is left, one of them meets an error of the store, or ctx
// ends, which is no error.
func work(ctx context.Context, opts options, like worker) error {
	// Many tasks in a batch save round trips; but a few large files are to be shared.
	const batchesEach = 4
	like.batch = min(max(like.ledger.unfinished()/(opts.workers*batchesEach), 1), batchMax)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	var failed error
	var once sync.Once
	for n := range opts.workers {
		w := like
		w.actor = stint.ActorID(fmt.Sprintf("%s%d", processName(), n+1))
		workers.Go(func() {
			if err := w.loop(ctx); err != nil {
				once.Do(func() { failed = err })
				cancel() // The others stop as after Ctrl-C.
			}
		})
	}
	workers.Wait()
	return failed
}

// processName is what the names of all workers of this process begin with, for people to see.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("export %s/%d/", host, os.Getpid())
}

// loop is the life of a worker. When ctx ends it stops taking tasks and returns those that it has;
// the calls themselves are not to end with ctx, or it could not.
func (w *worker) loop(ctx context.Context) error {
	calls := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		owned, err := w.store.OwnTasks(calls, w.actor, w.batch, w.actions, w.lease)
		if err != nil {
			return err
		}
		if len(owned) > 0 {
			if err := w.perform(ctx, owned); err != nil {
				return err
			}
			continue
		}
		// Nothing is ready. What is left may be with other workers, or wait for its next try.
		finished, err := w.ledger.catchUp(calls, w.store)
		if err != nil || finished {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(idlePause):
		}
	}
	return nil
}

// perform copies the files of a batch, and returns the tasks together.
func (w *worker) perform(ctx context.Context, owned []stint.OwnedTask) error {
	calls := context.WithoutCancel(ctx)
	stopExtending := w.keepExtending(calls, owned)
	defer stopExtending()
	var done []stint.Return
	last := time.Now()
	for _, task := range owned {
		done = append(done, w.attempt(ctx, task))
		if time.Since(last) < returnEvery {
			continue
		}
		if err := w.giveBack(calls, done); err != nil {
			return err
		}
		done, last = nil, time.Now()
	}
	return w.giveBack(calls, done)
}

// attempt copies one file, and says what is to become of the task.
func (w *worker) attempt(ctx context.Context, task stint.OwnedTask) stint.Return {
	outcome := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	if ctx.Err() != nil {
		// It was not begun: Release gives it back as if nobody had owned it.
		outcome.Code, outcome.Release = stint.StatusPending, true
		return outcome
	}
	bytes, err := w.copier.copy(string(task.Body))
	if err != nil {
		// Pending asks for another try. After the last one the store aborts the task instead, and
		// keeps the status for the list at the end.
		outcome.Code, outcome.Status = stint.StatusPending, err.Error()
		outcome.RetryAfter = backoff(task.Try)
	}
	w.ledger.attempted(bytes, task.Try > 1)
	return outcome
}

// backoff doubles the pause from try to try, and spreads it, so that what fails together does not
// come back together.
func backoff(try int) time.Duration {
	const first, most = 250 * time.Millisecond, 30 * time.Second
	pause := first
	for n := 1; n < try && pause < most; n++ {
		pause *= 2
	}
	return pause/2 + rand.N(pause) //nolint:gosec // no secret
}

// giveBack returns tasks. The store accepts or refuses each for itself.
func (w *worker) giveBack(ctx context.Context, done []stint.Return) error {
	verdicts, err := w.store.ReturnTasks(ctx, done)
	if err != nil {
		return err
	}
	for i, refused := range verdicts {
		switch {
		case errors.Is(refused, stint.ErrInvalidToken):
			// This process was held up for longer than the lease, and another worker has the task.
			// What that one returns counts; copying twice has done no harm.
		case refused != nil:
			return refused
		case done[i].Code == stint.StatusCompleted:
			w.ledger.copied(done[i].ID)
		}
	}
	return nil
}

// keepExtending extends the lease on a batch again and again until the function it returns is
// called, so that a large file may take longer than a lease; only a dead process loses its tasks.
// Tasks returned meanwhile do no harm in the list.
func (w *worker) keepExtending(ctx context.Context, owned []stint.OwnedTask) (stop func()) {
	const perLease = 3 // One or two heartbeats may get lost.
	stopped := make(chan struct{})
	var heart sync.WaitGroup
	heart.Go(func() {
		beat := time.NewTicker(w.lease / perLease)
		defer beat.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-beat.C:
				// An error is no matter yet. If the lease does get lost, the return will tell.
				_, _ = w.store.ExtendTasksOwnership(ctx, w.actor, owned, w.lease)
			}
		}
	})
	return func() {
		close(stopped)
		heart.Wait()
	}
}
