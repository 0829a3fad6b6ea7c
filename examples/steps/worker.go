package main

import (
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

// work performs orders until it is killed, or one is done.
func work(ctx context.Context, url, journal string, stdout io.Writer) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		return err
	}
	defer store.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	done, stop := context.WithCancel(ctx)
	defer stop()
	w, err := worker.New(store, worker.Options{},
		worker.Handle(action, func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			result, err := perform(ctx, task, journal, stdout)
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
func perform(
	ctx context.Context, task *worker.Task, journal string, stdout io.Writer,
) (worker.Result, error) {
	receipts := 0
	for _, name := range steps() {
		receipt, err := worker.Step(ctx, task, name, func(context.Context) (int, error) {
			return call(journal, name, stdout)
		})
		if err != nil {
			return worker.Result{}, err
		}
		receipts += receipt
	}
	return worker.Result{Status: fmt.Sprintf("%d receipts", receipts)}, nil
}

// call does something in the world outside: here it appends a line to a file.
func call(journal, name string, stdout io.Writer) (receipt int, err error) {
	//nolint:gosec // the program names the file itself
	file, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintln(file, name)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	fmt.Fprintln(stdout, name) // whoever kills this process waits for it
	return 1, nil
}
