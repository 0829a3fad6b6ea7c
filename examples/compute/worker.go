package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// A worker owns tasks, computes, and returns the tasks with their results.
type worker struct {
	*database
	journal *journal
	actor   stint.ActorID
	lease   time.Duration

	performances int
}

// A performance is one fetch of one task, with a name for the journal that nobody else uses.
type performance struct {
	stint.OwnedTask
	name string
	// deaf is a performance that cannot be interrupted when it has lost its task. Only the return
	// tells it so.
	deaf bool
}

// loop is the life of a worker. Most of them end otherwise.
func (w *worker) loop(ctx context.Context) error {
	// If this process dies, what it owns is handed on at once instead of when the lease expires.
	actions := []string{actionFactor}
	err := keepTrying(ctx, func() error { return w.store.RegisterActor(ctx, w.actor, actions) })
	if err != nil {
		return err
	}
	for {
		const tasksMax = 2
		var owned []stint.OwnedTask
		err := keepTrying(ctx, func() (err error) {
			owned, err = w.store.WaitToOwnTasks(ctx, w.actor, tasksMax, actions, w.lease)
			return err
		})
		if err != nil {
			return err
		}
		if err := w.perform(ctx, owned); err != nil {
			return err
		}
	}
}

// perform performs tasks side by side.
func (w *worker) perform(ctx context.Context, owned []stint.OwnedTask) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	performances := make([]performance, len(owned))
	for i, task := range owned {
		w.performances++
		p := performance{
			OwnedTask: task, name: fmt.Sprintf("%s/%d", w.actor, w.performances),
			deaf: w.performances%2 == 0,
		}
		performances[i] = p
		err := w.journal.write(entry{
			Kind: began, Performance: p.name, Computation: p.ID, Token: p.Token, Try: p.Try,
			From: p.LeaseUntil.Add(-w.lease), Until: p.LeaseUntil,
		})
		if err != nil {
			return err
		}
	}
	var computing sync.WaitGroup
	for _, p := range performances {
		computing.Go(func() {
			if err := w.attempt(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
	stopExtending := w.keepExtending(ctx, performances)
	computing.Wait()
	stopExtending()
	return context.Cause(ctx)
}

// attempt computes for as long as the task is owned, and returns it.
func (w *worker) attempt(ctx context.Context, p performance) error {
	owning, done := w.store.OwnershipContext(ctx, p.OwnedTask)
	defer done()
	if p.deaf {
		owning = ctx
	}
	value, err := factor(owning, p.ID)
	switch {
	case errors.Is(err, stint.ErrInvalidToken):
		return w.journal.write(entry{Kind: lost, Performance: p.name})
	case err != nil:
		return err
	}
	done()
	if err := w.journal.write(entry{Kind: returning, Performance: p.name}); err != nil {
		return err
	}
	verdict := accepted
	err = keepTrying(ctx, func() error { return w.giveBack(ctx, p, value) })
	switch {
	case errors.Is(err, stint.ErrAlreadyReturned): // by an attempt that was cut off
	case errors.Is(err, stint.ErrInvalidToken):
		verdict = refused
	case err != nil:
		return err
	}
	return w.journal.write(entry{Kind: verdict, Performance: p.name})
}

// giveBack returns a task and adds the result to the table, both or neither: a worker that has lost
// the task leaves no trace of its work.
func (w *worker) giveBack(ctx context.Context, p performance, value string) error {
	posted, err := json.Marshal(answer{Value: value, Performance: p.name})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		verdicts, err := w.store.WithTx(tx).ReturnTasks(ctx, []stint.Return{{
			ID: p.ID, Token: p.Token, Code: stint.StatusCompleted, Result: posted,
		}})
		if err == nil {
			err = verdicts[0]
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, statement("add_result"), string(p.ID), p.name, value)
		return err
	})
}

// keepExtending extends the leases again and again until the function it returns is called, so that
// a computation may take longer than a lease. What was returned meanwhile does no harm in the list.
func (w *worker) keepExtending(ctx context.Context, performances []performance) (stop func()) {
	const perLease = 3
	ctx, cancel := context.WithCancel(ctx)
	var heart sync.WaitGroup
	heart.Go(func() {
		beat := time.NewTicker(w.lease / perLease)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				w.extend(ctx, performances)
			}
		}
	})
	return func() {
		cancel()
		heart.Wait()
	}
}

// extend need not report errors. If a lease does get lost, the return tells.
func (w *worker) extend(ctx context.Context, performances []performance) {
	owned := make([]stint.OwnedTask, len(performances))
	for i, p := range performances {
		owned[i] = p.OwnedTask
		_ = w.journal.write(entry{Kind: extending, Performance: p.name})
	}
	mine, err := w.store.ExtendTasksOwnership(ctx, w.actor, owned, w.lease)
	if err != nil {
		return
	}
	for i, p := range performances {
		if mine[i] {
			_ = w.journal.write(entry{Kind: extended, Performance: p.name})
		}
	}
}
