package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-tasks/stint"
)

func streamStintUnderSnapshot(ctx context.Context, r *run) error {
	return r.underOldSnapshot(ctx, func() error { return streamStint(ctx, r) })
}

// streamStint inserts with one store and drains with another, in batches.
func streamStint(ctx context.Context, r *run) error {
	inserting, err := newStint(ctx, r, sustainInserters)
	if err != nil {
		return err
	}
	draining, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	err = r.sustain(ctx, steadyStream{
		insert: func(ctx context.Context, from, to int) error {
			return inserting.InsertTasks(ctx, stintTasks(from, to, r.BodyBytes))
		},
		drain: func(ctx, live context.Context, done func(tasks int)) error {
			return inParallel(ctx, drainers, func(ctx context.Context, goroutine int) error {
				d := drainer{actor: workerName(goroutine), batch: r.drainBatch()}
				return d.drainWhile(ctx, live, draining, done)
			})
		},
	})
	if err == nil && r.prunes() {
		_, err = draining.GetTasks(ctx, []stint.TaskID{stint.TaskID(taskID(0))})
		switch {
		case err == nil:
			err = errNotPruned
		case errors.Is(err, stint.ErrTaskNotFound):
			err = nil
		}
	}
	return errors.Join(err, inserting.Close(ctx), draining.Close(ctx))
}

// fanInJoins is how many tasks of W7 wait for the others, before the last one waits for them.
const fanInJoins = 400

// fillStintFanIn inserts tasks, joins that wait for an equal share of them each, and a last task
// that waits for the joins.
func fillStintFanIn(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	joins := make([]stint.Task, 0, fanInJoins)
	last := stint.Task{ID: "last", Action: stintAction}
	for i := range min(fanInJoins, r.Tasks) {
		join := stint.Task{
			ID: stint.TaskID(fmt.Sprintf("join-%d", i)), Action: stint.Spontaneous,
		}
		joins, last.After = append(joins, join), append(last.After, join.ID)
	}
	tasks := stintTasks(0, r.Tasks, r.BodyBytes)
	for i := range tasks {
		tasks[i].ToSignalAfter = []stint.TaskID{joins[i*len(joins)/len(tasks)].ID}
	}
	err = store.InsertTasks(ctx, append(append(tasks, joins...), last))
	return errors.Join(err, store.Close(ctx))
}

// drainStintFanIn drains all that has to be performed: not the joins, which complete themselves.
func drainStintFanIn(ctx context.Context, r *run) error {
	return drainStintOf(ctx, r, r.Tasks+1, []string{stintAction})
}

// fillStintMixed inserts tasks of many actions and several priorities.
func fillStintMixed(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	err = insertStintRange(ctx, r, store, 0, r.Backlog, func(task *stint.Task, n int) {
		task.Action, task.Priority = mixedAction(n), mixedPriority(n)
	})
	return errors.Join(err, store.Close(ctx))
}

func drainStintMixed(ctx context.Context, r *run) error {
	return drainStintOf(ctx, r, r.Tasks, mixedActions())
}

func loopStintMixed(ctx context.Context, r *run) error {
	return loopStintOf(ctx, r, mixedActions())
}
