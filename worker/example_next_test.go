package worker_test

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A program that performs what there is, one after the other, and ends.
func ExampleWorker_PerformNext() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "greet/world", Action: "greet", Body: []byte("world")},
		stint.Task{ID: "greet/queen", Action: "greet", Body: []byte("queen"), Priority: 1})
	defer drop()

	greet := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		fmt.Printf("hello, %s\n", task.Body)
		return worker.Result{}, nil
	}
	w, err := worker.New(store, worker.Options{}, worker.Handle("greet", greet))
	if err != nil {
		panic(err)
	}
	for {
		performed, ok, err := w.PerformNext(ctx)
		if err != nil {
			panic(err)
		}
		if !ok {
			break
		}
		fmt.Println(performed.Task.ID, performed.Outcome)
	}
	// Output:
	// hello, queen
	// greet/queen completed
	// hello, world
	// greet/world completed
}
