package main

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint/worker"
)

// stepsWorkload is to drain tasks that take ten steps each, of which what they return is kept.
const stepsWorkload = "W16"

const stepsEach = 10

// drainStintSteps drains with a worker whose handler takes the steps.
func drainStintSteps(ctx context.Context, r *run) error {
	perform := func(ctx context.Context, task *worker.Task) error {
		for i := range stepsEach {
			name := fmt.Sprint("step ", i)
			_, err := worker.Step(ctx, task, name, func(context.Context) (int, error) {
				return i, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return loopStintWith(ctx, r, []string{stintAction}, perform)
}
