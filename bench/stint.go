package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/worker"
)

// Variants of Stint.
const (
	verbsKept    = "verbs, kept"
	verbsDropped = "verbs, KeepNone"
	loopKept     = "worker, kept"
	loopDropped  = "worker, KeepNone"
)

// stintContender is this library: its bare verbs, and the loop of package worker.
func stintContender() contender {
	return contender{
		name:   "stint",
		title:  "Stint",
		create: func(ctx context.Context, r *run) error { return migrations.Migrate(ctx, r.observer) },
		entries: []entry{
			{workload: "W1", measure: insertStint},
			{workload: "W2", variant: verbsKept, fill: fillStint, measure: drainStint},
			{workload: "W2", variant: verbsDropped, fill: fillStint, measure: drainStint},
			{workload: "W2", variant: loopKept, fill: fillStint, measure: loopStint},
			{workload: "W2", variant: loopDropped, fill: fillStint, measure: loopStint},
		},
	}
}

// stintAction is the action of tasks where there is only one.
const stintAction = "bench"

// newStint returns a store with a pool of its own, and a function that closes it.
func newStint(ctx context.Context, r *run, connections int32) (*stint.Store, *pgxpool.Pool, error) {
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return nil, nil, err
	}
	var options stint.Options
	if r.Variant == verbsDropped || r.Variant == loopDropped {
		options.Retention.Completed = stint.KeepNone
	}
	store, err := stint.New(pool, options)
	return store, pool, err
}

// stintTasks are the tasks with the numbers from from to to.
func stintTasks(from, to, bodyBytes int) []stint.Task {
	text := body(bodyBytes)
	tasks := make([]stint.Task, to-from)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(taskID(from + i)), Action: stintAction, Body: text}
	}
	return tasks
}

// insertStintTasks inserts n tasks as River does, 10,000 at a time.
func insertStintTasks(ctx context.Context, r *run, store *stint.Store, n int) error {
	const batch, goroutines = 10_000, 4
	return inBatches(ctx, goroutines, n, batch, func(ctx context.Context, from, to int) error {
		return store.InsertTasks(ctx, stintTasks(from, to, r.BodyBytes))
	})
}

func fillStint(ctx context.Context, r *run) error {
	store, _, err := newStint(ctx, r, 4)
	if err != nil {
		return err
	}
	return errors.Join(insertStintTasks(ctx, r, store, r.Backlog), store.Close(ctx))
}

func insertStint(ctx context.Context, r *run) error {
	store, _, err := newStint(ctx, r, 4)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insertStintTasks(ctx, r, store, r.Tasks)
	})
	return errors.Join(err, store.Close(ctx))
}

// drainStint owns tasks and completes them with the bare verbs, 1,000 at a time, in 8 goroutines.
func drainStint(ctx context.Context, r *run) error {
	const batch, goroutines = 1000, 8
	store, _, err := newStint(ctx, r, goroutines)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return completeStint(ctx, store, r.Tasks, goroutines, batch, []string{stintAction})
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

// completeStint owns and completes at least n tasks, and returns how many.
func completeStint(
	ctx context.Context, store *stint.Store, n, goroutines, batch int, actions []string,
) (int, error) {
	var taken, done atomic.Int64
	err := inParallel(ctx, goroutines, func(ctx context.Context, goroutine int) error {
		actor := stint.ActorID(fmt.Sprintf("worker-%d", goroutine))
		for taken.Load() < int64(n) {
			owned, err := store.OwnTasks(ctx, actor, batch, actions, time.Minute)
			if err != nil {
				return err
			}
			taken.Add(int64(len(owned)))
			if err := returnAll(ctx, store, owned); err != nil {
				return err
			}
			done.Add(int64(len(owned)))
		}
		return nil
	})
	return int(done.Load()), err
}

// returnAll completes tasks in one call, each of which must be accepted.
func returnAll(ctx context.Context, store *stint.Store, owned []stint.OwnedTask) error {
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	}
	verdicts, err := store.ReturnTasks(ctx, returns)
	return errors.Join(append(verdicts, err)...)
}

// checkStint makes sure that the tasks that were measured have been completed, and that none is left
// if all were measured.
func checkStint(ctx context.Context, r *run, store *stint.Store) error {
	if r.Backlog > r.report.Tasks {
		return nil // every return was accepted, and the rest is not for listing
	}
	unfinished := []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateAborted,
	}
	left, err := store.ListTasks(ctx, stint.Filter{States: unfinished})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("task %s is %s", left[0].ID, left[0].State)
	}
	return err
}

// loopStint drains with a worker as large as River's. It is done when the worker has stopped, since
// by then it has returned everything.
func loopStint(ctx context.Context, r *run) error {
	store, _, err := newStint(ctx, r, 20)
	if err != nil {
		return err
	}
	w, err := worker.New(store, worker.Options{Concurrency: 2000})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var performed atomic.Int64
	err = w.Handle(stintAction, func(context.Context, *worker.Task) (worker.Result, error) {
		if performed.Add(1) == int64(r.Tasks) {
			stop()
		}
		return worker.Result{}, nil
	})
	if err != nil {
		return err
	}
	unstopped := context.WithoutCancel(ctx)
	err = r.measure(unstopped, func(context.Context) (int, error) {
		err := w.Run(ctx)
		return int(performed.Load()), err
	})
	return errors.Join(err, checkStint(unstopped, r, store), store.Close(unstopped))
}
