package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stint-tasks/stint/worker"
)

// stepsWorkload is to drain tasks that take ten steps each, of which what they return is kept.
const stepsWorkload = "W16"

const stepsEach = 10

// drainStintSteps measures until the worker has stopped, since by then it has returned everything.
func drainStintSteps(ctx context.Context, r *run) error {
	var performed atomic.Int64
	live, stop := context.WithCancel(ctx)
	defer stop()
	handler := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		for i := range stepsEach {
			name := fmt.Sprint("step ", i)
			_, err := worker.Step(ctx, task, name, func(context.Context) (int, error) {
				return i, nil
			})
			if err != nil {
				return worker.Result{}, err
			}
		}
		if performed.Add(1) == int64(r.Tasks) {
			stop()
		}
		return worker.Result{}, nil
	}
	return loopStintWith(ctx, live, r, &performed, worker.Handle(stintAction, handler))
}
