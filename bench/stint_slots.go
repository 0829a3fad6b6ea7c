package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

func stintSlotEntries() []entry {
	return slotEntries("", openStintSlots, openStintSlots, func(workload) bool { return true })
}

// openStintSlots has a store with default options. Without slots, worker and pool have theirs, too.
func openStintSlots(ctx context.Context, r *run, slots int) (slotted, error) {
	connections := slotConnections
	if slots == 0 {
		connections = 0
	}
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return slotted{}, err
	}
	store, err := stint.New(pool, stint.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return slotted{}, err
	}
	return slotted{
		insert: func(ctx context.Context, from int, bodies [][]byte) error {
			tasks := make([]stint.Task, len(bodies))
			for i, body := range bodies {
				tasks[i] = stint.Task{
					ID: stint.TaskID(taskID(from + i)), Action: stintAction, Body: body,
				}
			}
			err := store.InsertTasks(ctx, tasks)
			if errors.Is(err, stint.ErrTaskExists) { // its answer was lost at first
				return nil
			}
			return err
		},
		work: func(ctx context.Context, perform func(body []byte)) (func() error, error) {
			w, err := worker.New(store, worker.Options{
				Concurrency: slots, Logger: slog.New(slog.DiscardHandler),
			}, worker.Handle(stintAction,
				func(_ context.Context, task *worker.Task) (worker.Result, error) {
					perform(task.Body)
					return worker.Result{}, nil
				}))
			if err != nil {
				return nil, err
			}
			live, cancel := context.WithCancel(context.WithoutCancel(ctx))
			ended := make(chan error, 1)
			go func() { ended <- w.Run(live) }()
			return func() error {
				cancel()
				return <-ended
			}, nil
		},
		check: func(ctx context.Context, inserted, performed int) error {
			ready, err := r.count(ctx, readyCountSQL)
			if err == nil && ready != inserted-performed {
				err = fmt.Errorf("%d of %d tasks were performed, and %d are ready",
					performed, inserted, ready)
			}
			return err
		},
		close: store.Close,
	}, nil
}
