package stinttest_test

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// A till is the part of a payment provider that the handler below uses.
type till interface{ Charge(task stint.TaskID) error }

// charge returns the handler that is tested: it charges a customer, and then the task is completed.
func charge(till till) worker.Handler {
	return func(_ context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{Status: "charged"}, till.Charge(task.ID)
	}
}

// A fakeTill counts charges.
type fakeTill map[stint.TaskID]int

func (f fakeTill) Charge(task stint.TaskID) error {
	f[task]++
	return nil
}

// A mortalTill is a till that a process reaches only while it lives.
type mortalTill struct {
	*stinttest.Process
	till till
}

func (m mortalTill) Charge(task stint.TaskID) error {
	return m.Call("charge", func() error { return m.till.Charge(task) })
}

// A process that dies after the charge leaves a task that charges again.
func ExampleTryEveryCrash() {
	t, end := newT()
	defer end()
	store := stinttest.New(t, stint.Options{})
	charges := fakeTill{}

	stinttest.TryEveryCrash(t, store, stint.Task{Action: "charge"},
		func(p *stinttest.Process) worker.Registration {
			return worker.Handle("charge", charge(mortalTill{p, charges}))
		},
		func(_ context.Context, task stint.TaskInfo) error {
			if n := charges[task.ID]; n != 1 {
				return fmt.Errorf("the customer pays %d times", n)
			}
			return nil
		})
	// Output:
	// FAIL: TryEveryCrash: the handler does not survive 2 of 4 crashes:
	//	2: after the call "charge": the customer pays 2 times
	//	3: before the statement "return_tasks" with 4 more: the customer pays 2 times
}
