package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

const (
	actionSprint = "sprint"
	sprintTasks  = 50_000
)

// A Sprint is how fast tasks go through the store when there is nothing to do for them.
type Sprint struct {
	Tasks int `json:"tasks"`
	// Inserted is how many seconds it took to insert them, Performed how many it took from the
	// first fetch to the last return.
	Inserted  float64 `json:"inserted_seconds"`
	Performed float64 `json:"performed_seconds"`
}

// sprint inserts tasks, then owns and completes them, with the verbs that a loop of your own would
// use: many tasks a call, and no handler.
func sprint(ctx context.Context, store *stint.Store) (Sprint, error) {
	tasks := make([]stint.Task, sprintTasks)
	for i := range tasks {
		id := stint.TaskID(fmt.Sprintf("%s/%d", actionSprint, i))
		tasks[i] = stint.Task{ID: id, Action: actionSprint}
	}
	result := Sprint{Tasks: len(tasks)}
	begun := now()
	if err := store.InsertTasks(ctx, tasks); err != nil {
		return result, err
	}
	result.Inserted = now().Sub(begun).Seconds()

	const sprinters = 4
	errs := make([]error, sprinters)
	begun = now()
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			errs[i] = performAll(ctx, store, stint.ActorID(fmt.Sprintf("sprinter-%d", i+1)))
		})
	}
	running.Wait()
	result.Performed = now().Sub(begun).Seconds()
	return result, errors.Join(errs...)
}

// performAll owns and completes tasks until none is ready.
func performAll(ctx context.Context, store *stint.Store, actor stint.ActorID) error {
	const perCall = 1_000
	for {
		owned, err := store.OwnTasks(ctx, actor, perCall, []string{actionSprint}, lease)
		if err != nil || len(owned) == 0 {
			return err
		}
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}
		}
		verdicts, err := store.ReturnTasks(ctx, returns)
		if err := errors.Join(append(verdicts, err)...); err != nil {
			return err
		}
	}
}

// now is for measuring how long something takes in this process, which has nothing to do with the
// times that the store knows.
func now() time.Time {
	return time.Now() //nolint:forbidigo // durations of this process
}
