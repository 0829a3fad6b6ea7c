package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

// exampleStore opens a store with a few tasks, for which an example waits.
func exampleStore(
	tasks ...stint.Task,
) (ctx context.Context, store *stint.Store, pool *pgxpool.Pool, drop func()) {
	ctx = context.Background()
	pool, dropDatabase, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	store, err = stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	for i := range tasks {
		tasks[i].PostResult = true
	}
	if err := store.InsertTasks(ctx, tasks); err != nil {
		panic(err)
	}
	return ctx, store, pool, func() {
		if err := errors.Join(store.Close(ctx), dropDatabase()); err != nil {
			panic(err)
		}
	}
}

// runUntil runs a worker until a task has finished, as the service around it would until it is told
// to end.
func runUntil(
	ctx context.Context, w *worker.Worker, store *stint.Store, id stint.TaskID,
) stint.TaskInfo {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	info, err := store.WaitForTask(ctx, id)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		panic(err)
	}
	return info
}

func Example() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "greet/world", Action: "greet", Body: []byte("world")})
	defer drop()

	greet := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		fmt.Printf("hello, %s\n", task.Body)
		return worker.Result{Status: "greeted"}, nil
	}
	w, err := worker.New(store, worker.Options{},
		worker.Handle("greet", greet, worker.WithConcurrency(4)))
	if err != nil {
		panic(err)
	}
	// A service calls w.Run with a context that ends with a signal, as signal.NotifyContext makes.
	info := runUntil(ctx, w, store, "greet/world")
	fmt.Println(info.StatusCode, info.Status)
	// Output:
	// hello, world
	// completed greeted
}

func ExampleHandleJSON() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "thumbnail/7", Action: "shrink", Body: []byte(`{"Image": 7, "Width": 90}`)})
	defer drop()

	type params struct{ Image, Width int }
	type result struct{ File string }
	shrink := func(_ context.Context, _ *worker.Task, p params) (result, error) {
		return result{File: fmt.Sprintf("%d-%dpx.jpg", p.Image, p.Width)}, nil
	}
	w, err := worker.New(store, worker.Options{},
		worker.HandleJSON("shrink", shrink, worker.WithTimeout(time.Minute)))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", runUntil(ctx, w, store, "thumbnail/7").Result)
	// Output:
	// {"File":"7-90px.jpg"}
}

// What the handler writes and the end of its task become real in one commit.
func ExampleTask_ReturnIn() {
	ctx, store, pool, drop := exampleStore(stint.Task{ID: "bill/7", Action: "bill"})
	defer drop()
	if _, err := pool.Exec(ctx, "CREATE TABLE invoices (task text)"); err != nil {
		panic(err)
	}

	bill := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO invoices VALUES ($1)", string(task.ID))
			if err != nil {
				return err
			}
			result := worker.Result{Status: fmt.Sprint("billed at try ", task.Try)}
			if err := task.ReturnIn(ctx, tx, result); err != nil {
				return err
			}
			if task.Try == 1 {
				return errors.New("no luck") // undoes all of it, and the task is tried again
			}
			return nil
		})
	}
	w, err := worker.New(store, worker.Options{Retry: worker.Retry{Base: time.Millisecond}},
		worker.Handle("bill", bill))
	if err != nil {
		panic(err)
	}
	info := runUntil(ctx, w, store, "bill/7")
	var invoices int
	err = pool.QueryRow(ctx, "SELECT count(*) FROM invoices").Scan(&invoices)
	fmt.Println(info.Status, invoices, err)
	// Output:
	// billed at try 2 1 <nil>
}

func ExampleMiddleware() {
	ctx, store, _, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	traced := func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			fmt.Println("begin", task.Action, task.ID)
			result, err := next(ctx, task)
			fmt.Println("end", result.Status, err)
			return result, err
		}
	}
	copied := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{Status: "copied"}, nil
	}
	w, err := worker.New(store, worker.Options{Middleware: []worker.Middleware{traced}},
		worker.Handle("copy", copied))
	if err != nil {
		panic(err)
	}
	runUntil(ctx, w, store, "a")
	// Output:
	// begin copy a
	// end copied <nil>
}

func ExampleAbort() {
	ctx, store, _, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	file := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if task.Try == 1 {
			return worker.Result{}, fmt.Errorf("server is busy: %w",
				worker.RetryAfter(time.Millisecond))
		}
		return worker.Result{}, worker.Abort(errors.New("no such file"))
	}
	w, err := worker.New(store, worker.Options{}, worker.Handle("copy", file))
	if err != nil {
		panic(err)
	}
	info := runUntil(ctx, w, store, "a")
	fmt.Println(info.StatusCode, info.Tries, info.Status)
	// Output:
	// aborted 2 no such file
}

// Handlers of one action that begin no faster than a limiter allows, in this process. A task waits
// for its turn with its slot, so the action has few of them; its lease is extended meanwhile.
func Example_rateLimit() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "1", Action: "mail"}, stint.Task{ID: "2", Action: "mail"},
		stint.Task{ID: "3", Action: "mail"})
	defer drop()

	limited := func(limiter *rate.Limiter, next worker.Handler) worker.Handler {
		return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			if err := limiter.Wait(ctx); err != nil {
				return worker.Result{}, err
			}
			return next(ctx, task)
		}
	}
	mail := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		fmt.Println("mail", task.ID)
		return worker.Result{}, nil
	}
	const pause = 20 * time.Millisecond
	limiter := rate.NewLimiter(rate.Every(pause), 1)
	w, err := worker.New(store, worker.Options{},
		worker.Handle("mail", limited(limiter, mail), worker.WithConcurrency(1)))
	if err != nil {
		panic(err)
	}
	begun := time.Now()
	runUntil(ctx, w, store, "3")
	fmt.Println("took its time:", time.Since(begun) >= 2*pause)
	// Output:
	// mail 1
	// mail 2
	// mail 3
	// took its time: true
}

// A loop of one's own that asks for an expensive action only while its token bucket is filled, so
// that others may own what this process must not perform now.
func Example_tokenBucket() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "1", Action: "expensive", Priority: 1},
		stint.Task{ID: "2", Action: "expensive", Priority: 1},
		stint.Task{ID: "3", Action: "cheap"}, stint.Task{ID: "4", Action: "cheap"})
	defer drop()

	bucket := rate.NewLimiter(rate.Every(time.Hour), 1)
	for {
		actions := []string{"cheap"}
		if bucket.Tokens() >= 1 {
			actions = append(actions, "expensive")
		}
		owned, err := store.OwnTasks(ctx, "worker-1", 1, actions, time.Minute)
		if err != nil {
			panic(err)
		}
		if len(owned) == 0 {
			break // a service waits here with WaitToOwnTasks, no longer than until the next token
		}
		for _, task := range owned {
			if task.Action == "expensive" {
				bucket.Allow()
			}
			fmt.Println(task.Action, task.ID)
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// expensive 1
	// cheap 3
	// cheap 4
}

// A loop of one's own that asks for heavy work only while the machine has little to do.
func Example_loadGate() {
	ctx, store, _, drop := exampleStore(
		stint.Task{ID: "1", Action: "transcode"}, stint.Task{ID: "2", Action: "notify"})
	defer drop()

	loads := []float64{8.5, 0.3} // a service takes load() instead
	for _, load := range loads {
		actions := []string{"notify"}
		if load < 4 {
			actions = append(actions, "transcode")
		}
		owned, err := store.OwnTasks(ctx, "worker-1", 10, actions, time.Minute)
		if err != nil {
			panic(err)
		}
		for _, task := range owned {
			fmt.Println("load", load, task.Action)
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				panic(err)
			}
		}
	}
	_, err := load()
	fmt.Println(err)
	// Output:
	// load 8.5 notify
	// load 0.3 transcode
	// <nil>
}

// load is how many processes wait for a processor, on the average of the last minute, on Linux.
func load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // another system
	}
	if err != nil {
		return 0, err
	}
	var average float64
	_, err = fmt.Fscan(strings.NewReader(string(text)), &average)
	return average, err
}

// Rows of many tasks are written with one statement. A task that is wrong fails alone.
func ExampleHandleBatch() {
	tasks := []stint.Task{
		{ID: "measure/1", Action: "measure", Body: []byte("12")},
		{ID: "measure/2", Action: "measure", Body: []byte("thirteen")},
		{ID: "measure/3", Action: "measure", Body: []byte("14")},
	}
	ctx, store, _, drop := exampleStore(tasks...)
	defer drop()

	measure := func(_ context.Context, tasks []*worker.BatchTask) error {
		sum := 0
		for _, task := range tasks {
			value, err := strconv.Atoi(string(task.Body))
			if err != nil {
				task.End(worker.Result{}, worker.Abort(err))
				continue
			}
			sum += value
		}
		fmt.Printf("wrote the sum of %d tasks: %d\n", len(tasks), sum)
		return nil // completes the others
	}
	w, err := worker.New(store, worker.Options{},
		worker.HandleBatch("measure", worker.Batch{Size: 3, Wait: time.Minute}, measure))
	if err != nil {
		panic(err)
	}
	runUntil(ctx, w, store, "measure/3")
	infos, err := store.GetTasks(ctx, []stint.TaskID{"measure/1", "measure/2", "measure/3"})
	if err != nil {
		panic(err)
	}
	for _, info := range infos {
		fmt.Println(info.ID, info.StatusCode)
	}
	// Output:
	// wrote the sum of 3 tasks: 26
	// measure/1 completed
	// measure/2 aborted
	// measure/3 completed
}
