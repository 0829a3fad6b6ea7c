package worker_test

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

type Mail struct{ To string }

type Receipt struct{ Number int }

const SendMail worker.Action[Mail, Receipt] = "send-mail"

// One constant for those who insert a task, perform it and wait for it.
func ExampleAction() {
	ctx := context.Background()
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	task, err := SendMail.Task(Mail{To: "ann"})
	if err != nil {
		panic(err)
	}
	tasks := []stint.Task{task}
	tasks[0].PostResult = true
	if err := store.InsertTasks(ctx, tasks); err != nil { // sets the ID
		panic(err)
	}

	send := func(_ context.Context, _ *worker.Task, mail Mail) (Receipt, error) {
		fmt.Println("mail to", mail.To)
		return Receipt{Number: 7}, nil
	}
	w, err := worker.New(store, worker.Options{}, worker.HandleJSON(SendMail, send))
	if err != nil {
		panic(err)
	}
	if _, _, err := w.PerformNext(ctx); err != nil { // a service calls Run
		panic(err)
	}

	info, err := store.WaitForTask(ctx, tasks[0].ID)
	if err != nil {
		panic(err)
	}
	receipt, err := SendMail.Result(info.Result)
	fmt.Println("receipt", receipt.Number, err)
	if err := store.Close(ctx); err != nil {
		panic(err)
	}
	if err := drop(); err != nil {
		panic(err)
	}
	// Output:
	// mail to ann
	// receipt 7 <nil>
}
