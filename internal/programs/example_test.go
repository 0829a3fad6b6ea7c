//go:build unix

package programs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/programs"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

func Example() {
	ctx := context.Background()
	pool, drop, err := testdb.Open(ctx) // a service makes its own pool
	if err != nil {
		panic(err)
	}
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	dir, err := os.MkdirTemp("", "programs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program := "#!/bin/sh\necho greeting on try $STINT_TRY >&2\necho hello, $(cat)\n"
	if err := os.WriteFile(filepath.Join(dir, "greet"), []byte(program), 0o700); err != nil {
		panic(err)
	}

	directory, err := programs.Open(dir)
	if err != nil {
		panic(err)
	}
	w, err := worker.New(store, worker.Options{}, directory.Handlers()...)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	task := stint.Task{ID: "greet/world", Action: "greet", Body: []byte("world"), PostResult: true}
	if err := store.InsertTasks(ctx, []stint.Task{task}); err != nil {
		panic(err)
	}
	info, err := store.WaitForTask(ctx, task.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(directory.Actions())
	fmt.Printf("%s%s", info.Status, info.Result)

	stop()
	fmt.Println(<-ended)
	directory.Close()
	// Output:
	// [greet]
	// greeting on try 1
	// hello, world
	// <nil>
}
