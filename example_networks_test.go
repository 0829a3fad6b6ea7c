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
	// nobody asks for "ship"
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

func ExampleStore_WaitForTask() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "sum/1+2", Action: "sum", PostResult: true})
	defer drop()
	defer store.Close(ctx)

	// Elsewhere: a worker.
	go func() {
		owned, err := store.WaitToOwnTasks(ctx, "worker-1", 1, []string{"sum"}, time.Minute)
		if err != nil {
			panic(err)
		}
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
			Result: []byte("3"),
		}})
		if err := errors.Join(append(verdicts, err)...); err != nil {
			panic(err)
		}
	}()

	info, err := store.WaitForTask(ctx, "sum/1+2")
	fmt.Println(info.StatusCode, string(info.Result), err)
	// Output: completed 3 <nil>
}

// A group is waited for through the task that joins it.
func ExampleStore_WaitForTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "a", Action: "copy"},
		stint.Task{ID: "b", Action: "copy"},
		stint.Task{
			ID: "both", Action: stint.Spontaneous, PostResult: true,
			After: []stint.TaskID{"a", "b"},
		},
		stint.Task{ID: "single", Action: "copy", PostResult: true},
	)
	defer drop()
	defer store.Close(ctx)

	go func() {
		if _, err := store.AbortTasks(ctx, []stint.TaskID{"single", "a"}, "no space"); err != nil {
			panic(err)
		}
	}()

	infos, err := store.WaitForTasks(ctx, []stint.TaskID{"both", "single"})
	for _, info := range infos {
		fmt.Println(info.ID, info.StatusCode, info.AbortCause)
	}
	fmt.Println(err)
	// Output:
	// both aborted dependency
	// single aborted cancelled
	// <nil>
}

func ExampleStore_WaitToOwnTasks() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	go func() {
		err := store.InsertTasks(ctx, []stint.Task{{ID: "mail/1", Action: "mail"}})
		if err != nil {
			panic(err)
		}
	}()

	owned, err := store.WaitToOwnTasks(ctx, "worker-1", 10, []string{"mail"}, time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(owned[0].ID)
	// Output: mail/1
}

// The owner of a task that is aborted need not go on.
func ExampleStore_OwnershipContext() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "video", Action: "encode"})
	defer drop()
	defer store.Close(ctx)
	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"encode"}, time.Hour)
	if err != nil {
		panic(err)
	}

	performing, done := store.OwnershipContext(ctx, owned[0])
	defer done()

	// Elsewhere: somebody cancels it.
	if _, err := store.AbortTasks(ctx, []stint.TaskID{"video"}, "not wanted any more"); err != nil {
		panic(err)
	}

	<-performing.Done()
	fmt.Println(context.Cause(performing))
	// Output: invalid performance token: "video"
}

// What a registered actor owns is handed on within a second if the process dies, or at once when
// the store is closed.
func ExampleStore_RegisterActor() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	if err := store.RegisterActor(ctx, "worker-1", []string{"mail"}); err != nil {
		panic(err)
	}
	if err := store.InsertTasks(ctx, []stint.Task{{ID: "mail/1", Action: "mail"}}); err != nil {
		panic(err)
	}
	const lease = 10 * time.Minute
	if _, err := store.WaitToOwnTasks(ctx, "worker-1", 10, []string{"mail"}, lease); err != nil {
		panic(err)
	}

	other, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer other.Close(ctx)
	if err := store.Close(ctx); err != nil {
		panic(err)
	}
	owned, err := other.WaitToOwnTasks(ctx, "worker-2", 10, []string{"mail"}, lease)
	if err != nil {
		panic(err)
	}
	fmt.Println(owned[0].ID, "try", owned[0].Try)
	// Output: mail/1 try 2
}

func ExampleStore_UnregisterActor() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.RegisterActor(ctx, "worker-1", []string{"mail"}); err != nil {
		panic(err)
	}
	if err := store.UnregisterActor(ctx, "worker-1"); err != nil {
		panic(err)
	}
	actors, err := store.ListActors(ctx)
	fmt.Println(len(actors), err)
	// Output: 0 <nil>
}

func ExampleStore_ListActors() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "mail/1", Action: "mail"}, stint.Task{ID: "mail/2", Action: "mail"},
	)
	defer drop()
	defer store.Close(ctx)

	if err := store.RegisterActor(ctx, "worker-1", []string{"mail", "fax"}); err != nil {
		panic(err)
	}
	if _, err := store.OwnTasks(ctx, "worker-1", 10, []string{"mail"}, time.Minute); err != nil {
		panic(err)
	}
	actors, err := store.ListActors(ctx)
	if err != nil {
		panic(err)
	}
	for _, actor := range actors {
		fmt.Println(actor.Actor, actor.Actions, "owns", actor.Tasks)
	}
	// Output: worker-1 [fax mail] owns 2
}

func ExampleStore_RecordStep() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	err := store.InsertTasks(ctx, []stint.Task{{ID: "order/7", Action: "order"}})
	if err != nil {
		panic(err)
	}
	for try := range 2 {
		owned, err := store.OwnTasks(ctx, "worker", 1, []string{"order"}, time.Minute)
		if err != nil {
			panic(err)
		}
		steps, err := store.Steps(ctx, owned[0])
		if err != nil {
			panic(err)
		}
		for _, step := range steps {
			fmt.Printf("try %d goes on behind %q: %s\n", try+1, step.Name, step.Result)
		}
		_, err = store.RecordStep(ctx, owned[0], "charge", []byte("receipt 7"))
		if err != nil {
			panic(err)
		}
		err = store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusPending)
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// try 2 goes on behind "charge": receipt 7
}

func ExampleNewAnswerKey() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	key := stint.NewAnswerKey() // goes into a link
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "order/7/approve", Action: stint.External, AnswerKey: key},
	})
	if err != nil {
		panic(err)
	}
	for _, key := range []stint.AnswerKey{stint.NewAnswerKey(), key} {
		verdicts, err := store.AnswerTasks(ctx, "somebody", []stint.Answer{
			{ID: "order/7/approve", Key: key, Code: stint.StatusCompleted},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(verdicts[0])
	}
	// Output:
	// invalid answer key: "order/7/approve"
	// <nil>
}

func ExampleStore_AnswerTasks() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "order/7/approve", Action: stint.External},
		{ID: "order/7/ship", Action: "ship", After: []stint.TaskID{"order/7/approve"}},
	})
	if err != nil {
		panic(err)
	}
	yes := stint.Answer{ID: "order/7/approve", Code: stint.StatusCompleted, Status: "fine with me"}
	for range 2 {
		verdicts, err := store.AnswerTasks(ctx, "ann", []stint.Answer{yes})
		if err != nil {
			panic(err)
		}
		fmt.Println(verdicts[0])
	}
	owned, err := store.OwnTasks(ctx, "worker", 1, []string{"ship"}, time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(owned[0].ID)
	// Output:
	// <nil>
	// task has finished: "order/7/approve"
	// order/7/ship
}

func ExampleStore_Minutes() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "copy", Action: "copy"})
	defer drop()

	if err := store.Maintain(ctx); err != nil { // otherwise in the background
		panic(err)
	}
	minutes, err := store.Minutes(ctx, "copy")
	for _, m := range minutes[:1] {
		fmt.Println(m.Completed, "completed,", m.Failed, "failed,", m.Ready, "ready", err)
	}
	// Output: 0 completed, 0 failed, 1 ready <nil>
}
