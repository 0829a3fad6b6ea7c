// Command steps shows that a task goes on where its last try ended: a worker performs an order in
// ten steps, and dies again and again on the way. The next worker takes no recorded step again.
//
//	go run -C examples ./steps
//	go run -C examples ./steps -kills 20
//	go run -C examples ./steps -database-url postgres://localhost/app
//
// Each call of a step appends a line to a file, which stands for the world outside of the database:
// at the end it tells how often each was called. Without -database-url the program uses a private
// PostgreSQL, which is gone at the end.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/stint-tasks/stint/internal/localpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("steps", flag.ContinueOnError)
	url := flags.String("database-url", "",
		"use the database at `URL` instead of a temporary private one")
	kills := flags.Int("kills", 5, "kill the worker `N` times")
	journal := flags.String("worker", "",
		"perform orders, and append the calls to this `FILE`; the program starts itself so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *journal != "" {
		return work(ctx, *url, &world{*journal, stdout, bufio.NewReader(os.Stdin)})
	}
	if *url == "" {
		fmt.Fprintln(stdout, "keeping the task in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
		if err != nil {
			return err
		}
		defer server.Close() //nolint:errcheck // nothing in it is needed any more
		*url = server.URL("postgres")
	}
	return demonstrate(ctx, *url, *kills, stdout)
}
