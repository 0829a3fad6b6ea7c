package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

const action = "order"

// steps are the names of the steps of an order.
func steps() []string {
	return []string{
		"reserve", "charge", "invoice", "pack", "label", "hand over", "track", "deliver", "thank",
		"file",
	}
}

// A world is the one outside of the database, as far as a worker calls it.
type world struct {
	// journal is the file to which each call appends a line.
	journal string
	// called is told the name of each call, and leave gives leave to go on behind it, with a line
	// each time. Whoever kills this process does it between the two, so the step is not recorded.
	called io.Writer
	leave  *bufio.Reader
}

// work performs orders until it is killed, or one is done.
func work(ctx context.Context, url string, outside *world) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	// By default, a task whose workers die three times in a row is aborted.
	store, err := stint.New(pool, stint.Options{MaxLosses: stint.UnlimitedLosses})
	if err != nil {
		return err
	}
	defer store.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	done, stop := context.WithCancel(ctx)
	defer stop()
	w, err := worker.New(store, worker.Options{Concurrency: 1},
		worker.Handle(action, func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			result, err := perform(ctx, task, outside)
			if err == nil {
				stop()
			}
			return result, err
		}))
	if err != nil {
		return err
	}
	return w.Run(done)
}

// perform takes the steps of an order.
func perform(ctx context.Context, task *worker.Task, outside *world) (worker.Result, error) {
	receipts := 0
	for _, name := range steps() {
		receipt, err := worker.Step(ctx, task, name, func(context.Context) (int, error) {
			return outside.call(name)
		})
		if err != nil {
			return worker.Result{}, err
		}
		receipts += receipt
	}
	return worker.Result{Status: fmt.Sprintf("%d receipts", receipts)}, nil
}

// call does something in the world outside: here it appends a line to a file.
func (w *world) call(name string) (receipt int, err error) {
	file, err := os.OpenFile(w.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintln(file, name)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintln(w.called, name); err != nil {
		return 0, err
	}
	if _, err := w.leave.ReadString('\n'); err != nil {
		return 0, err
	}
	return 1, nil
}
