// Command tracing shows a trace that crosses the queue: a request inserts a task, whose tries link
// to the insert, each with its steps; the task inserts another one, which links to that insert.
//
//	go run -C examples ./tracing
//	go run -C examples ./tracing -database-url postgres://localhost/app
//
// It prints the spans. A service sends them to a collector: it gives the provider an exporter of
// OpenTelemetry instead. Without -database-url the program uses a private PostgreSQL, which is gone
// at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/stintotel"
	"github.com/stint-tasks/stint/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("tracing", flag.ContinueOnError)
	url := flags.String("database-url", "",
		"use the database at `URL` instead of a temporary private one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" {
		fmt.Fprintln(stdout, "keeping the tasks in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
		if err != nil {
			return err
		}
		defer server.Close() //nolint:errcheck // nothing in it is needed any more
		*url = server.URL("postgres")
	}
	pool, err := pgxpool.New(ctx, *url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.MigratePool(ctx, pool); err != nil {
		return err
	}
	return demonstrate(ctx, pool, stdout)
}

// demonstrate makes a request, and performs what comes of it.
func demonstrate(ctx context.Context, pool *pgxpool.Pool, stdout io.Writer) error {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&printer{out: stdout}))
	// With the headers, each task carries the trace of whoever inserts it.
	store, err := stint.New(pool, stint.Options{Headers: stintotel.Headers(nil)})
	if err != nil {
		return err
	}
	defer store.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the program ends
	s := &shop{store: store, provider: provider, mailed: make(chan struct{})}
	w, err := worker.New(store, worker.Options{
		TracerProvider: provider, Concurrency: 1,
		Retry: worker.Retry{Base: time.Millisecond, Max: time.Millisecond},
	}, worker.Handle("charge", s.charge), worker.Handle("mail", s.mail))
	if err != nil {
		return err
	}
	if err := s.order(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		<-s.mailed
		stop()
	}()
	return w.Run(ctx)
}

type shop struct {
	store    *stint.Store
	provider trace.TracerProvider
	mailed   chan struct{}
}

// order stands for the handler of a request, of which a middleware makes a span.
func (s *shop) order(ctx context.Context) error {
	ctx, span := s.provider.Tracer("shop").Start(ctx, "POST /orders",
		trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	tasks := []stint.Task{{Action: "charge", Body: []byte("7")}}
	return stintotel.Insert(ctx, s.provider, tasks, s.store.InsertTasks)
}

func (s *shop) charge(ctx context.Context, task *worker.Task) (worker.Result, error) {
	_, err := worker.Step(ctx, task, "reserve", func(context.Context) (string, error) {
		return "reserved", nil
	})
	if err != nil {
		return worker.Result{}, err
	}
	_, err = worker.Step(ctx, task, "capture", func(context.Context) (string, error) {
		if task.Try == 1 {
			return "", errors.New("the bank does not answer")
		}
		return "captured", nil
	})
	if err != nil {
		return worker.Result{}, err
	}
	mail := []stint.Task{{Action: "mail"}}
	return worker.Result{}, stintotel.Insert(ctx, s.provider, mail, s.store.InsertTasks)
}

func (s *shop) mail(context.Context, *worker.Task) (worker.Result, error) {
	defer close(s.mailed)
	return worker.Result{}, nil
}
