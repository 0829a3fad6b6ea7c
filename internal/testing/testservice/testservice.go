// Package testservice offers a store over the network in tests.
package testservice

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/service"
)

// stopMax is how long a service may take to stop.
const stopMax = time.Minute

// Start starts a service of a store, and returns its address, and what stops it as a signal would.
// It is stopped at the end of the test at the latest.
func Start(
	tb testing.TB, pool *pgxpool.Pool, store *stint.Store, options service.Options,
) (address string, stop func() error) {
	tb.Helper()
	return StartBehind(tb, pool, store, options, func(s http.Handler) http.Handler { return s })
}

// StartBehind is [Start] with a handler that sees each request before the service does.
func StartBehind(
	tb testing.TB, pool *pgxpool.Pool, store *stint.Store, options service.Options,
	front func(s http.Handler) http.Handler,
) (address string, stop func() error) {
	tb.Helper()
	s, err := service.New(pool, store, options)
	if err != nil {
		tb.Fatalf("service.New = %v", err)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("Listen = %v", err)
	}
	server := service.NewServer(s)
	server.Handler = front(s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), stopMax)
		defer cancel()
		err := errors.Join(server.Shutdown(ctx), s.Close(ctx))
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("stop the service: %v", err)
		}
	})
	return "http://" + listener.Addr().String(), stop
}

// Client returns a client of a service, which is closed at the end of the test.
func Client(tb testing.TB, address string, options client.Options) *client.Client {
	tb.Helper()
	c, err := client.New(address, options)
	if err != nil {
		tb.Fatalf("client.New = %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("close the client: %v", err)
		}
	})
	return c
}
