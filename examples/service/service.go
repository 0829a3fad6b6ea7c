package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/worker"
)

// What a stop may take at most. Together they are less than the 30 s that Kubernetes gives.
const (
	requestGrace = 5 * time.Second
	handlerGrace = 15 * time.Second // and a second more, if handlers do not return even then
	closeGrace   = 2 * time.Second
)

// serve is the life of the service, until ctx ends.
func serve(ctx context.Context, url string, listener net.Listener, stdout io.Writer) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("-database-url: %w", err)
	}
	config.MaxConns = 25 // 10 handlers, 5 for the worker itself, the rest for requests
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	service, err := newService(ctx, pool)
	if err != nil {
		pool.Close()
		return err
	}
	metrics := stintprom.NewWorkerMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(service.store), metrics)
	performer, err := worker.New(service.store,
		worker.Options{Concurrency: 10, StopGrace: handlerGrace, Metrics: metrics},
		worker.HandleJSON(Charge, service.charge, worker.WithTimeout(time.Minute)))
	if err != nil {
		err = errors.Join(err, service.store.Close(ctx))
		pool.Close()
		return err
	}

	// A signal must not end requests and tasks that are under way, so neither gets ctx: stop ends
	// them, in order.
	waits, endWaits := context.WithCancel(context.WithoutCancel(ctx))
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	server := &http.Server{
		Handler: service.routes(waits, registry), ReadHeaderTimeout: requestGrace,
	}
	server.RegisterOnShutdown(endWaits)
	parts, failed := errgroup.WithContext(ctx)
	var workErr error
	parts.Go(func() error {
		workErr = performer.Run(working)
		return workErr
	})
	parts.Go(func() error {
		err := server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
	<-failed.Done() // a signal has come, or a part has failed
	endWorker := func() (err, ofWorker error) {
		endWork()
		return parts.Wait(), workErr
	}
	return stop(context.WithoutCancel(ctx), server, endWorker, service, stdout)
}

// stop ends the parts, each before those that it uses.
func stop(
	ctx context.Context, server *http.Server, endWorker func() (err, ofWorker error),
	service *service, stdout io.Writer,
) error {
	// 1. Take no more requests, and let those under way end. Shutdown waits for them, and does not
	// end their contexts: requests that wait for a task would hold it up, so endWaits, which it
	// calls, releases them. Close cuts off whoever is still there after the grace, which ends the
	// contexts, so that their connections go back to the pool.
	graceful, cancel := context.WithTimeout(ctx, requestGrace)
	defer cancel()
	err := server.Shutdown(graceful)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	fmt.Fprintln(stdout, "no more requests")

	// 2. End the worker: it owns no more tasks, handlers have their grace, and what they have not
	// ended is given back at once. Tasks of the last requests wait in the database for another
	// process.
	partsErr, workErr := endWorker()
	fmt.Fprintln(stdout, "the worker has ended")

	// 3. Close the store, which worker and requests have used.
	closing, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	err = errors.Join(err, partsErr, service.store.Close(closing))
	fmt.Fprintln(stdout, "the store is closed")

	// 4. Close the pool, which everybody has used. It waits until all connections are back, so not
	// if a handler does not return; the end of the process closes them then.
	if !errors.Is(workErr, worker.ErrStillRunning) {
		service.pool.Close()
		fmt.Fprintln(stdout, "the pool is closed")
	}
	return err
}

// newService makes the tables, if they are not there, and the store.
func newService(ctx context.Context, pool *pgxpool.Pool) (*service, error) {
	if err := migrations.MigratePool(ctx, pool); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, createOrders); err != nil {
		return nil, err
	}
	store, err := stint.New(pool, stint.Options{})
	return &service{pool: pool, store: store}, err
}
