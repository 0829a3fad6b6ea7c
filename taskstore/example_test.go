package taskstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/taskstore"
)

// exampleStore opens a store on a database of its own. A program does:
//
//	pool, err := pgxpool.New(ctx, url)
//	err = migrations.MigratePool(ctx, pool)
//	store, err := taskstore.New(pool, taskstore.Options{})
func exampleStore() (ctx context.Context, store *taskstore.Store, drop func()) {
	ctx = context.Background()
	pool, dropDatabase, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	store, err = taskstore.New(pool, taskstore.Options{})
	if err != nil {
		panic(err)
	}
	return ctx, store, func() {
		if err := dropDatabase(); err != nil {
			panic(err)
		}
	}
}

// A worker claims a task, and deletes it together with adding what follows from it.
func Example() {
	ctx, store, drop := exampleStore()
	defer drop()

	const client = 1643 // each chooses a number, such as a random one
	_, err := store.Update(ctx, taskstore.Request{
		Client: client,
		Adds:   []taskstore.Add{{Group: "map", Data: []byte("/path/to/file:1024:2048")}},
	})
	if err != nil {
		panic(err)
	}

	task, found, err := store.Claim(ctx, taskstore.Claim{
		Client: client, Group: "map", Duration: time.Minute,
	})
	if err != nil || !found {
		panic(err)
	}
	fmt.Printf("working on %s\n", task.Data)

	_, err = store.Update(ctx, taskstore.Request{
		Client:  client,
		Deletes: []int64{task.ID},
		Adds:    []taskstore.Add{{Group: "reduce", Data: []byte("1024 words")}},
	})
	if errors.Is(err, taskstore.ErrConflict) {
		fmt.Println("too slow: somebody else has the task")
		return
	}
	if err != nil {
		panic(err)
	}
	groups, err := store.Groups(ctx)
	fmt.Println(groups, err)
	// Output:
	// working on /path/to/file:1024:2048
	// [reduce] <nil>
}

// A client keeps a task by updating it, and gives it back by an update to the present time. The
// task has a new ID each time.
func ExampleStore_Update() {
	ctx, store, drop := exampleStore()
	defer drop()

	const minuteFromNow = -60_000
	tasks, err := store.Update(ctx, taskstore.Request{
		Client: 1643,
		Adds:   []taskstore.Add{{Group: "map", Data: []byte("a file"), TimeSpec: minuteFromNow}},
	})
	if err != nil {
		panic(err)
	}
	kept, err := store.Update(ctx, taskstore.Request{
		Client: 1643,
		Updates: []taskstore.Change{
			{ID: tasks[0].ID, Data: tasks[0].Data, TimeSpec: minuteFromNow},
		},
	})
	if err != nil {
		panic(err)
	}
	_, err = store.Update(ctx, taskstore.Request{
		Client: 1532, Updates: []taskstore.Change{{ID: kept[0].ID}},
	})
	var conflict *taskstore.ConflictError
	fmt.Println(errors.As(err, &conflict), conflict.Owned[0] == kept[0].ID)

	back, err := store.Update(ctx, taskstore.Request{
		Client: 1643, Updates: []taskstore.Change{{ID: kept[0].ID, Data: []byte("a file")}},
	})
	fmt.Printf("%s %v\n", back[0].Data, err)
	// Output:
	// true true
	// a file <nil>
}

// A claim finds a task or none. A task that others need stays as it is meanwhile.
func ExampleStore_Claim() {
	ctx, store, drop := exampleStore()
	defer drop()

	tasks, err := store.Update(ctx, taskstore.Request{Client: 1643, Adds: []taskstore.Add{
		{Group: "jobs", Data: []byte("count words")}, {Group: "map", Data: []byte("a file")},
	}})
	if err != nil {
		panic(err)
	}
	job := tasks[0]
	for range 2 {
		task, found, err := store.Claim(ctx, taskstore.Claim{
			Client: 1532, Group: "map", Duration: time.Minute, Depends: []int64{job.ID},
		})
		fmt.Printf("%t %q %v\n", found, task.Data, err)
	}
	// Output:
	// true "a file" <nil>
	// false "" <nil>
}

func ExampleHandler() {
	_, store, drop := exampleStore()
	defer drop()

	server := httptest.NewServer(taskstore.Handler(store)) // a program calls http.ListenAndServe
	defer server.Close()
	for _, body := range []string{
		`{"clientid": 16, "adds": [{"group": "map", "timespec": 1}]}`,
		`{"clientid": 16, "deletes": [16], "depends": [12]}`,
	} {
		answer, err := http.Post(server.URL+"/update", "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		text, err := io.ReadAll(answer.Body)
		fmt.Print(answer.Status, " ", string(text))
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			panic(err)
		}
	}
	// Output:
	// 200 OK {"tasks":[{"id":1,"group":"map","data":"","timespec":1,"ownerid":16}],"error":null}
	// 409 Conflict {"tasks":[],"error":{"deletes":[16],"depends":[12]}}
}
