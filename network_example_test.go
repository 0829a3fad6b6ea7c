package stint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// perform owns a task and completes it with a result.
func perform(ctx context.Context, store *stint.Store, action, result string) {
	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{action}, time.Minute)
	if err != nil {
		panic(err)
	}
	_, err = store.ReturnTasks(ctx, []stint.Return{{
		ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
		Result: []byte(result),
	}})
	if err != nil {
		panic(err)
	}
}

// A task waits for others, through a join that needs no worker.
func ExampleStore_InsertTasks_dependencies() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()

	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "count/a", Action: "count"},
		{ID: "count/b", Action: "count"},
		{ID: "counted", Action: stint.Spontaneous, After: []stint.TaskID{"count/a", "count/b"}},
		{ID: "sum", Action: "sum", After: []stint.TaskID{"counted"}},
	})
	if err != nil {
		panic(err)
	}
	perform(ctx, store, "count", "3")
	perform(ctx, store, "count", "4")
	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"sum"}, time.Minute)
	if err != nil {
		panic(err)
	}
	sum := owned[0]
	fmt.Println(sum.ID, "after", sum.Completed, "completed and", sum.Aborted, "aborted")
	// Output:
	// sum after 2 completed and 0 aborted
}

func ExampleStore_Inputs() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "count/a", Action: "count"},
		stint.Task{ID: "count/b", Action: "count"},
		stint.Task{ID: "sum", Action: "sum", After: []stint.TaskID{"count/a", "count/b"}},
	)
	defer drop()

	perform(ctx, store, "count", "3")
	perform(ctx, store, "count", "4")
	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"sum"}, time.Minute)
	if err != nil {
		panic(err)
	}
	inputs, err := store.Inputs(ctx, owned[0])
	if err != nil {
		panic(err)
	}
	for _, input := range inputs {
		fmt.Printf("%s %s: %s\n", input.ID, input.StatusCode, input.Result)
	}
	// Output:
	// count/a completed: 3
	// count/b completed: 4
}

func ExampleStore_AddDependencies() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "export", Action: "export"},
		stint.Task{ID: "next-export", Action: "export"},
	)
	defer drop()

	err := store.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: "export", Dependent: "next-export"},
	})
	fmt.Println(err)
	err = store.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: "next-export", Dependent: "export"},
	})
	fmt.Println(err)
	perform(ctx, store, "export", "")
	err = store.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: "export", Dependent: "next-export"}, // is there already
		{Predecessor: "next-export", Dependent: "export"},
	})
	fmt.Println(err, errors.Is(err, stint.ErrTaskStarted))
	// Output:
	// <nil>
	// add dependencies: dependencies form a cycle: "export" -> "next-export" -> "export"
	// add dependencies: dependencies refused: "export" after "next-export" (task has started) true
}

// A worker that writes results of its own while it goes on working.
func ExampleStore_HoldOwnership() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	if _, err := pool.Exec(ctx, "CREATE TABLE pages (url text)"); err != nil {
		panic(err)
	}
	err = store.InsertTasks(ctx, []stint.Task{{ID: "crawl/1", Action: "crawl"}})
	if err != nil {
		panic(err)
	}

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"crawl"}, time.Minute)
	if err != nil {
		panic(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := store.WithTx(tx).HoldOwnership(ctx, owned); err != nil {
			return err // somebody else owns the task: none of this shall count
		}
		_, err := tx.Exec(ctx, "INSERT INTO pages VALUES ('https://example.org')")
		return err
	})
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleStore_Explain() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "build", Action: "build"},
		stint.Task{ID: "ship", Action: "ship", After: []stint.TaskID{"build"}, MaxTries: 3},
	)
	defer drop()

	explanation, err := store.Explain(ctx, "ship")
	if err != nil {
		panic(err)
	}
	fmt.Println(explanation)
	// Output:
	// "ship" is blocked: it waits for 1
	//   "build" (ready)
	// tries left: 3 of 3
	// nobody has asked for "ship"
}

func ExampleStore_Graph() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "build", Action: "make"},
		stint.Task{ID: "ship", Action: "send", After: []stint.TaskID{"build"}},
	)
	defer drop()

	graph, err := store.Graph(ctx, "ship")
	if err != nil {
		panic(err)
	}
	if err := graph.WriteDOT(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// digraph tasks {
	// 	rankdir=LR
	// 	node [shape=box, style=filled]
	// 	n0 [label="build\nmake\nready", fillcolor="#fff3bf", color="#e67700"]
	// 	n1 [label="ship\nsend\nblocked", fillcolor="#f1f3f5", color="#868e96"]
	// 	n0 -> n1
	// }
}

func ExampleStore_Check() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "build", Action: "make"})
	defer drop()

	found, err := store.Check(ctx)
	fmt.Println(len(found), err)
	// Output:
	// 0 <nil>
}
