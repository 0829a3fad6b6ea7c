package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

func ExampleStep() {
	ctx, store, _, drop := exampleStore(stint.Task{ID: "order/7", Action: "order"})
	defer drop()
	broken := true
	w, err := worker.New(store, worker.Options{},
		worker.Handle("order", func(
			ctx context.Context, task *worker.Task,
		) (worker.Result, error) {
			charge, err := worker.Step(ctx, task, "charge", func(context.Context) (string, error) {
				fmt.Println("charging")
				return "receipt 7", nil
			})
			if err != nil {
				return worker.Result{}, err
			}
			_, err = worker.Step(ctx, task, "ship", func(context.Context) (bool, error) {
				if broken {
					return false, worker.Snooze(0)
				}
				fmt.Println("shipping what", charge, "is for")
				return true, nil
			})
			return worker.Result{}, err
		}))
	if err != nil {
		panic(err)
	}
	for range 2 {
		performed, _, err := w.PerformNext(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(performed.Outcome)
		broken = false
		if err := store.Maintain(ctx); err != nil {
			panic(err)
		}
	}
	// Output:
	// charging
	// snoozed
	// shipping what receipt 7 is for
	// completed
}

func ExampleSleep() {
	ctx, store, _, drop := exampleStore(stint.Task{ID: "remind/7", Action: "remind"})
	defer drop()
	w, err := worker.New(store, worker.Options{},
		worker.Handle("remind", func(
			ctx context.Context, task *worker.Task,
		) (worker.Result, error) {
			if err := worker.Sleep(ctx, task, "a day", 24*time.Hour); err != nil {
				return worker.Result{}, err
			}
			return worker.Result{}, errors.New("tomorrow")
		}))
	if err != nil {
		panic(err)
	}
	performed, _, err := w.PerformNext(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(performed.Outcome)
	why, err := store.Explain(ctx, "remind/7")
	if err != nil {
		panic(err)
	}
	fmt.Println(why.Task.State, why.Steps[0].Name, why.Task.Tries)
	// Output:
	// snoozed
	// scheduled a day 0
}
