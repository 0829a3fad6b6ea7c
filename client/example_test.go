package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

// exampleService starts a service on a database of its own, as the command stint serve does, and
// returns its address.
func exampleService() (ctx context.Context, address string, stop func()) {
	ctx = context.Background()
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	served, err := service.New(pool, store, service.Options{})
	if err != nil {
		panic(err)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := service.NewServer(served)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return ctx, "http://" + listener.Addr().String(), func() {
		err := errors.Join(
			server.Shutdown(ctx), served.Close(ctx), store.Close(ctx), drop())
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		if err != nil {
			panic(err)
		}
	}
}

// complete completes a task, as a worker would.
func complete(ctx context.Context, c *client.Client, action string) {
	owned, err := c.WaitToOwnTasks(ctx, "worker-1", 1, []string{action}, time.Minute)
	if err != nil {
		panic(err)
	}
	err = c.ReturnTask(ctx, owned[0].ID, owned[0].Token, "done", stint.StatusCompleted)
	if err != nil {
		panic(err)
	}
}

// A process that reaches a service, but no database, inserts a task and waits until it has been
// performed.
func ExampleNew() {
	ctx, address, stop := exampleService()
	defer stop()

	c, err := client.New(address, client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)
	err = c.InsertTasks(ctx, []stint.Task{
		{ID: "report/2026-11", Action: "report", PostResult: true},
	})
	if err != nil {
		panic(err)
	}

	go complete(ctx, c, "report") // somewhere else

	info, err := c.WaitForTask(ctx, "report/2026-11")
	if err != nil {
		panic(err)
	}
	fmt.Println(info.ID, info.StatusCode, info.Status)
	// Output: report/2026-11 completed done
}

// A task is completed and its successor inserted in one commit.
func ExampleClient_Transact() {
	ctx, address, stop := exampleService()
	defer stop()
	c, err := client.New(address, client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)
	if err := c.InsertTasks(ctx, []stint.Task{{ID: "page/1", Action: "fetch"}}); err != nil {
		panic(err)
	}

	owned, err := c.OwnTasks(ctx, "crawler-1", 1, []string{"fetch"}, time.Minute)
	if err != nil {
		panic(err)
	}
	step := client.Transaction{
		Insert: []stint.Task{{ID: "page/2", Action: "fetch"}},
		Return: []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
		}},
	}
	_, err = c.Transact(ctx, step)
	fmt.Println(err)

	step.Insert = []stint.Task{{ID: "page/3", Action: "fetch"}}
	_, err = c.Transact(ctx, step) // page/1 is completed already, so page/3 is not inserted
	fmt.Println(errors.Is(err, stint.ErrAlreadyReturned))
	page, err := c.ListTasks(ctx, stint.Filter{IDPrefix: "page/"})
	for _, info := range page.Tasks {
		fmt.Println(info.ID, info.State)
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// true
	// page/1 completed
	// page/2 ready
	// <nil>
}

// A worker runs on a client as it does on a store.
func Example_worker() {
	ctx, address, stop := exampleService()
	defer stop()
	c, err := client.New(address, client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)

	greet := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		fmt.Printf("hello, %s\n", task.Body)
		return worker.Result{Status: "greeted"}, nil
	}
	w, err := worker.New(c, worker.Options{}, worker.Handle("greet", greet))
	if err != nil {
		panic(err)
	}
	running, end := context.WithCancel(ctx) // which a process ends at a signal
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()

	err = c.InsertTasks(ctx, []stint.Task{
		{ID: "greet/world", Action: "greet", Body: []byte("world"), PostResult: true},
	})
	if err != nil {
		panic(err)
	}
	info, err := c.WaitForTask(ctx, "greet/world")
	fmt.Println(info.StatusCode, info.Status, err)
	end()
	fmt.Println(<-ended)
	// Output:
	// hello, world
	// completed greeted <nil>
	// <nil>
}

// A stream of any length is inserted in one transaction.
func ExampleClient_InsertTasksFrom() {
	ctx, address, stop := exampleService()
	defer stop()
	c, err := client.New(address, client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)

	n, err := c.InsertTasksFrom(ctx, func(yield func(stint.Task, error) bool) {
		for i := range 10_000 {
			task := stint.Task{ID: stint.TaskID(fmt.Sprintf("row/%d", i)), Action: "import"}
			if !yield(task, nil) {
				return
			}
		}
	})
	fmt.Println(n, err)
	// Output: 10000 <nil>
}
