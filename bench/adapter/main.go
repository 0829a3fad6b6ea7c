// Adapter lets the public harness github.com/hardbyte/postgresql-job-queue-benchmarking measure
// Stint: README.md says how. It inserts tasks and performs them until it is told to stop, and tells
// on standard output what it sees, a line of JSON each.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "adapter:", err)
		os.Exit(1)
	}
}

// stopGrace is how long handlers may go on after the signal; the harness waits for 5 s in all.
const stopGrace = 2 * time.Second

// run is one replica, until ctx ends.
func run(
	ctx context.Context, getenv func(string) string, tokens io.Reader, samples io.Writer,
	log *slog.Logger,
) error {
	s, err := readSettings(getenv)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return err
	}
	config.MaxConns = s.connections
	// What is under way when the signal comes is not cut off.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.MigratePool(ctx, pool); err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		_ = store.Close(closing) // the process ends anyway
	}()
	if s.scenario == migrateOnly {
		return nil
	}
	tell := &teller{settings: s, out: samples}
	if err := tell.descriptor(config.ConnConfig.Database); err != nil {
		return err
	}
	seen := &tally{}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return newProducer(s, store, seen, log).run(ctx, tokens) })
	group.Go(func() error { return perform(ctx, s, store, seen, log) })
	group.Go(func() error { return tell.run(ctx, store, seen, log) })
	return group.Wait()
}

// perform performs tasks with a worker.
func perform(
	ctx context.Context, s settings, store *stint.Store, seen *tally, log *slog.Logger,
) error {
	handler := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		inserted, err := insertedAt(task.Body)
		if err != nil {
			return worker.Result{}, worker.Abort(err)
		}
		seen.started(time.Since(inserted))
		if s.work > 0 {
			<-time.After(s.work)
		}
		seen.ended(time.Since(inserted))
		return worker.Result{}, nil
	}
	var handlers []worker.Registration
	for _, action := range s.actions() {
		handlers = append(handlers, worker.Handle(action, handler))
	}
	w, err := worker.New(store, worker.Options{
		Concurrency: s.workers, StopGrace: stopGrace, Logger: log,
	}, handlers...)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
