package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
	"github.com/stint-tasks/stint/worker"
)

// order is the network of an order. The customer's account is in eu, and the goods are in us: after
// the charge, they are packed and shipped there, and the invoice has to wait for that. Edges lead
// from eu to us, and from us to eu.
func order(name string) []shards.Task {
	id := func(shard, action string) shards.ID {
		return shards.ID{Shard: shard, Task: stint.TaskID(name + "/" + action)}
	}
	task := func(shard, action string, after ...shards.ID) shards.Task {
		return shards.Task{Shard: shard, After: after, Task: stint.Task{
			ID: id(shard, action).Task, Action: action, PostResult: true,
		}}
	}
	return []shards.Task{
		task("eu", "charge"),
		task("eu", "thank", id("eu", "charge")),
		task("us", "pack", id("eu", "charge")),
		task("us", "ship", id("us", "pack")),
		task("eu", "invoice", id("eu", "charge"), id("us", "ship")),
	}
}

// newWorker returns the worker of a shard. It knows nothing of the other one, except that the ID of
// an input may name a task there.
func newWorker(
	ctx context.Context, cluster *shards.Cluster, shard string, stdout io.Writer,
) (*worker.Worker, error) {
	store, err := cluster.Store(ctx, shard)
	if err != nil {
		return nil, err
	}
	perform := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		inputs, err := task.Inputs(ctx)
		if err != nil {
			return worker.Result{}, err
		}
		var read []string
		for _, in := range inputs {
			from, other := shards.StandsFor(in.ID)
			if !other {
				from = shards.ID{Shard: shard, Task: in.ID}
			}
			read = append(read, fmt.Sprintf("%s of %s", in.Result, from.Shard))
		}
		line := fmt.Sprintf("  %s performs %s", shard, task.ID)
		if len(read) > 0 {
			line += ", with " + strings.Join(read, " and ")
		}
		fmt.Fprintln(stdout, line)
		return worker.Result{Bytes: []byte("the " + task.Action)}, nil
	}
	actions := map[string][]string{"eu": {"charge", "thank", "invoice"}, "us": {"pack", "ship"}}
	var handlers []worker.Registration
	for _, action := range actions[shard] {
		handlers = append(handlers, worker.Handle(action, perform))
	}
	return worker.New(store, worker.Options{Concurrency: 1}, handlers...)
}
