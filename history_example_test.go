package stint_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

func ExampleStore_History() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{History: stint.HistoryOptions{Tries: 25}})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	err = store.InsertTasks(ctx, []stint.Task{{ID: "bill/7", Action: "bill"}})
	if err != nil {
		panic(err)
	}
	for _, r := range []stint.Return{
		{Code: stint.StatusPending, Status: "no network", Log: "connecting to the bank"},
		{Code: stint.StatusCompleted, Status: "sent"},
	} {
		owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"bill"}, time.Minute)
		if err != nil {
			panic(err)
		}
		r.ID, r.Token = owned[0].ID, owned[0].Token
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{r})
		if err != nil || verdicts[0] != nil {
			panic(fmt.Sprint(err, verdicts))
		}
	}
	history, err := store.History(ctx, "bill/7")
	if err != nil {
		panic(err)
	}
	for _, try := range history.Tries {
		fmt.Println(try.Number, try.Outcome, "by", try.Actor, try.Status, try.Log)
	}
	// Output:
	// 1 returned by worker-1 no network connecting to the bank
	// 2 completed by worker-1 sent
}
