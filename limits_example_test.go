package stint_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

// At most 40 mails are sent at once, one for each customer, and 1,000 a second.
func ExampleStore_SetLimits() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.SetLimits(ctx, "mail", stint.Limits{
		Concurrency:       40,
		ConcurrencyPerKey: 1,
		Rate:              stint.Rate{Tasks: 1000, Per: time.Second},
	})
	fmt.Println(err)

	err = store.SetLimits(ctx, "mail", stint.Limits{}) // none any more
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

func ExampleStore_ListLimits() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.SetLimits(ctx, "mail", stint.Limits{
		Concurrency: 40, Rate: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 10},
	})
	if err != nil {
		panic(err)
	}
	if err := store.Pause(ctx, "report"); err != nil {
		panic(err)
	}

	list, err := store.ListLimits(ctx)
	if err != nil {
		panic(err)
	}
	for _, l := range list {
		fmt.Printf("%s: %d of %d in progress, %.0f tokens, paused: %t\n", l.Action, l.InProgress,
			l.Limits.Concurrency, l.Tokens, !l.PausedSince.IsZero())
	}
	// Output:
	// mail: 0 of 40 in progress, 10 tokens, paused: false
	// report: 0 of 0 in progress, 0 tokens, paused: true
}

func ExampleStore_Pause() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.Pause(ctx, "mail", "report"))
	// The provider works again.
	fmt.Println(store.Resume(ctx, "mail", "report"))
	// Output:
	// <nil>
	// <nil>
}

func ExampleStore_Resume() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.Resume(ctx, "mail")) // no error if it is not paused
	// Output: <nil>
}

func ExampleStore_PauseKeys() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.PauseKeys(ctx, "mail", "customer-7"); err != nil {
		panic(err)
	}
	list, err := store.ListLimits(ctx, "mail")
	if err != nil {
		panic(err)
	}
	for key := range list[0].PausedKeys {
		fmt.Println(key)
	}
	// Output: customer-7
}

func ExampleStore_ResumeKeys() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.ResumeKeys(ctx, "mail", "customer-7"))
	// Output: <nil>
}

// Customers take turns, and one of them gets three times as many.
func ExampleStore_SetWeights() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.SetLimits(ctx, "mail", stint.Limits{Fair: true}); err != nil {
		panic(err)
	}
	if err := store.SetWeights(ctx, "mail", map[string]int{"customer-7": 3}); err != nil {
		panic(err)
	}
	list, err := store.ListLimits(ctx, "mail")
	if err != nil {
		panic(err)
	}
	fmt.Println(list[0].Weights)
	// Output: map[customer-7:3]
}
