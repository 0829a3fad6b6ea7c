package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/stint-tasks/stint/worker"
)

// stepsWorkload is to drain tasks that take ten steps each, of which what they return is kept.
const stepsWorkload = "W16"

const stepsEach = 10

func stepName(i int) string { return fmt.Sprint("step ", i) }

// drainStintSteps measures until the worker has stopped, since by then it has returned everything.
func drainStintSteps(ctx context.Context, r *run) error {
	var performed atomic.Int64
	live, stop := context.WithCancel(ctx)
	defer stop()
	handler := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		for i := range stepsEach {
			_, err := worker.Step(ctx, task, stepName(i), func(context.Context) (int, error) {
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

// takeDBOSSteps takes the steps of a workflow, if the workload has some.
func takeDBOSSteps(ctx dbos.Context, r *run) error {
	if r.Workload != stepsWorkload {
		return nil
	}
	for i := range stepsEach {
		_, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return i, nil },
			dbos.WithStepName(stepName(i)))
		if err != nil {
			return err
		}
	}
	return nil
}
