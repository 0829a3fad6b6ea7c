package stint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

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
