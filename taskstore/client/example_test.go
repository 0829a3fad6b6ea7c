package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/taskstore"
	"github.com/stint-tasks/stint/taskstore/client"
)

func Example() {
	ctx := context.Background()
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	defer drop()
	store, err := taskstore.New(pool, taskstore.Options{})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(taskstore.Handler(store)) // somewhere else
	defer server.Close()

	c, err := client.New(server.URL, nil)
	if err != nil {
		panic(err)
	}
	_, err = c.Update(ctx, taskstore.Request{
		Adds: []taskstore.Add{{Group: "map", Data: []byte("a file")}},
	})
	if err != nil {
		panic(err)
	}
	task, found, err := c.Claim(ctx, taskstore.Claim{Group: "map", Duration: time.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%t %q %t\n", found, task.Data, task.Owner == c.ID())
	_, err = c.Update(ctx, taskstore.Request{Deletes: []int64{task.ID}})
	fmt.Println(err)
	// Output:
	// true "a file" true
	// <nil>
}
