package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

// tell is what happens to three orders.
func tell(ctx context.Context, cluster *shards.Cluster, s *servers, stdout io.Writer) error {
	fmt.Fprintln(stdout, "order 1: five tasks, inserted together; its edges lead to us and back")
	first := order("order/1")
	if err := cluster.InsertTasks(ctx, first); err != nil {
		return err
	}
	if err := wait(ctx, cluster, first...); err != nil {
		return err
	}

	fmt.Fprintln(stdout, "order 2: us goes away before its charge")
	second, held := hold(order("order/2"))
	if err := cluster.InsertTasks(ctx, append(second, held)); err != nil {
		return err
	}
	if err := s.stop("us"); err != nil {
		return err
	}
	if err := answer(ctx, cluster, held); err != nil {
		return err
	}
	if err := wait(ctx, cluster, second[0], second[1]); err != nil { // charge and thank
		return err
	}
	if err := wantWaiting(ctx, cluster, second[4]); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "  its invoice waits for us, and nothing else does")

	fmt.Fprintln(stdout, "order 3: inserted while us is away")
	third := order("order/3")
	if err := cluster.InsertTasks(ctx, third); err == nil {
		return errors.New("tasks were inserted on a shard that is away")
	}
	if err := wantNone(ctx, cluster, third[0]); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "  refused as a whole: eu has none of its tasks either")

	fmt.Fprintln(stdout, "us is back")
	if err := s.start(ctx, "us"); err != nil {
		return err
	}
	if err := wait(ctx, cluster, second...); err != nil {
		return err
	}
	wrong, err := cluster.Check(ctx)
	if err != nil || len(wrong) > 0 {
		return errors.Join(fmt.Errorf("the check finds %v", wrong), err)
	}
	fmt.Fprintln(stdout, "both orders are done, each task once; the check of "+
		"both shards finds nothing")
	return nil
}

// hold returns a network that begins when somebody answers a task.
func hold(tasks []shards.Task) (all []shards.Task, held shards.Task) {
	held = shards.Task{Shard: tasks[0].Shard, Task: stint.Task{
		ID: tasks[0].Task.ID + "/paid", Action: stint.External,
	}}
	tasks[0].After = []shards.ID{{Shard: held.Shard, Task: held.Task.ID}}
	return tasks, held
}

// answer completes a task that is held.
func answer(ctx context.Context, cluster *shards.Cluster, held shards.Task) error {
	store, err := cluster.Store(ctx, held.Shard)
	if err != nil {
		return err
	}
	verdicts, err := store.AnswerTasks(ctx, "customer", []stint.Answer{{
		ID: held.Task.ID, Code: stint.StatusCompleted, Result: []byte("the money"),
	}})
	return errors.Join(append(verdicts, err)...)
}

// wait waits until tasks are completed.
func wait(ctx context.Context, cluster *shards.Cluster, tasks ...shards.Task) error {
	for _, task := range tasks {
		id := shards.ID{Shard: task.Shard, Task: task.Task.ID}
		info, err := cluster.WaitForTask(ctx, id)
		if err != nil {
			return err
		}
		if info.State != stint.StateCompleted || info.Tries != 1 {
			return fmt.Errorf("%s is %s after %d tries", id, info.State, info.Tries)
		}
	}
	return nil
}

// wantWaiting fails unless a task waits for others.
func wantWaiting(ctx context.Context, cluster *shards.Cluster, task shards.Task) error {
	id := shards.ID{Shard: task.Shard, Task: task.Task.ID}
	infos, err := cluster.GetTasks(ctx, []shards.ID{id})
	if err != nil {
		return err
	}
	if infos[0].State != stint.StateBlocked {
		return fmt.Errorf("%s is %s", id, infos[0].State)
	}
	return nil
}

// wantNone fails if there is a task.
func wantNone(ctx context.Context, cluster *shards.Cluster, task shards.Task) error {
	id := shards.ID{Shard: task.Shard, Task: task.Task.ID}
	_, err := cluster.GetTasks(ctx, []shards.ID{id})
	if !errors.Is(err, stint.ErrTaskNotFound) {
		return errors.Join(fmt.Errorf("%s was inserted", id), err)
	}
	return nil
}
