package branch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// An ownedTask is a task that a worker performs.
type ownedTask struct {
	stint.OwnedTask
	actor stint.ActorID
	body  body
}

// A record writes what came of a task, in the transaction that returns it.
type record func(ctx context.Context, tx pgx.Tx, tasks *stint.Store) error

// perform does the work of a task, all of it that is outside of the database. It must be safe to do
// twice, also by two workers at once: a worker may die after it, or be late.
func (e *Exporter) perform(ctx context.Context, task *ownedTask) (record, error) {
	switch task.Action {
	case actionNext:
		return e.next(ctx, task)
	case actionStart:
		return e.start(ctx, task)
	case actionCopy:
		return e.copy(ctx, task)
	case actionDelete:
		return e.remove(ctx, task)
	case actionSuccess:
		return e.success(ctx, task)
	case actionManifest:
		return e.manifest(ctx, task)
	default:
		return nil, errors.New("unknown action")
	}
}

// Work performs tasks until ctx ends, which is no error, or a worker meets an error of the store.
func (e *Exporter) Work(ctx context.Context, name string, workers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for n := range workers {
		actor := stint.ActorID(fmt.Sprintf("%s/%d", name, n+1))
		group.Go(func() {
			if err := e.loop(ctx, actor); err != nil {
				cancel(err) // The others stop as well.
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// loop is the life of a worker. When ctx ends it finishes its task; so the calls do not end with
// it.
func (e *Exporter) loop(ctx context.Context, actor stint.ActorID) error {
	const idlePause = 50 * time.Millisecond
	calls := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		task, err := e.own(calls, actor)
		switch {
		case err != nil:
			return err
		case task == nil:
			select {
			case <-ctx.Done():
			case <-time.After(idlePause):
			}
		default:
			if err := e.handle(calls, task); err != nil {
				return err
			}
		}
	}
	return nil
}

// own returns nil if no task is ready. A worker that owns one task at a time keeps none waiting.
func (e *Exporter) own(ctx context.Context, actor stint.ActorID) (*ownedTask, error) {
	actions := []string{
		actionNext, actionStart, actionCopy, actionDelete, actionSuccess, actionManifest,
	}
	owned, err := e.store.OwnTasks(ctx, actor, 1, actions, e.lease)
	if err != nil || len(owned) == 0 {
		return nil, err
	}
	task := &ownedTask{OwnedTask: owned[0], actor: actor}
	return task, json.Unmarshal(task.Body, &task.body)
}

// handle performs and returns a task.
func (e *Exporter) handle(ctx context.Context, task *ownedTask) error {
	stopExtending := e.keepExtending(ctx, task)
	defer stopExtending()
	write, err := e.perform(ctx, task)
	if err == nil {
		err = e.complete(ctx, task, write)
	}
	if err == nil || errors.Is(err, stint.ErrInvalidToken) {
		// If the token is not good any more, another worker was given the task, and what that one
		// does counts; nothing was written.
		return nil
	}
	// If the answer to the commit was lost, the task may be completed. Then its token is not good
	// for this return, which is as well.
	verdicts, returnErr := e.store.ReturnTasks(ctx, []stint.Return{{
		ID: task.ID, Token: task.Token, Code: stint.StatusPending, Status: err.Error(),
		RetryAfter: backoff(task.Try),
	}})
	if returnErr != nil {
		return errors.Join(err, returnErr)
	}
	if errors.Is(verdicts[0], stint.ErrInvalidToken) {
		return nil
	}
	return verdicts[0]
}

// complete writes what came of a task and returns it, in one commit.
func (e *Exporter) complete(ctx context.Context, task *ownedTask, write record) error {
	return e.inTx(ctx, func(tx pgx.Tx, tasks *stint.Store) error {
		if err := write(ctx, tx, tasks); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statement("log_performance"),
			task.body.Branch, task.body.Export, task.Action,
			task.body.Path, string(task.actor))
		if err != nil {
			return err
		}
		return tasks.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
	})
}

// backoff doubles the pause from try to try, and spreads it, so that what fails together does not
// come back together.
func backoff(try int) time.Duration {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	pause := min(first<<min(try, 10), most) // 10: enough to reach the most
	return pause/2 + rand.N(pause)          //nolint:gosec // no secret
}

// keepExtending extends the lease on a task until the function it returns is called, so that the
// work may take longer than a lease; only a dead worker loses its task.
func (e *Exporter) keepExtending(ctx context.Context, task *ownedTask) (stop func()) {
	const perLease = 3 // One or two heartbeats may get lost.
	ctx, cancel := context.WithCancel(ctx)
	var heart sync.WaitGroup
	heart.Go(func() {
		beat := time.NewTicker(e.lease / perLease)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				// An error is no matter yet. If the lease does get lost, the return will tell.
				owned := []stint.OwnedTask{task.OwnedTask}
				_, _ = e.store.ExtendTasksOwnership(ctx, task.actor, owned, e.lease)
			}
		}
	})
	return func() {
		cancel()
		heart.Wait()
	}
}
