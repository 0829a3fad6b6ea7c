package stint_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

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
