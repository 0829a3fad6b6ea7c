package stint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

func ExampleStore_Fence() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	first, err := store.Fence(ctx, owned[0])
	if err != nil {
		panic(err)
	}
	_, err = store.ReturnTasks(ctx, []stint.Return{{
		ID: "a", Token: owned[0].Token, Code: stint.StatusPending, Release: true,
	}})
	if err != nil {
		panic(err)
	}
	again, err := store.OwnTasks(ctx, "worker-2", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	second, err := store.Fence(ctx, again[0])
	fmt.Println(second > first, err)
	_, err = store.Fence(ctx, owned[0])
	fmt.Println(errors.Is(err, stint.ErrInvalidToken))
	// Output:
	// true <nil>
	// true
}
