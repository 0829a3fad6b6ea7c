// Command approval is a network that waits for a person: a purchase is prepared, somebody approves
// it by a link, and then it is ordered. The link works without an account, and once.
//
//	go run -C examples ./approval
//	go run -C examples ./approval -once
//	go run -C examples ./approval -database-url postgres://localhost/app
//
// It prints the link, and goes on when somebody has opened it and pressed a button. With -once it
// does so itself. Without -database-url it uses a private PostgreSQL, which is gone at the end.
//
// purchase.go is the network, and what its worker does. page.go is the page behind the link.
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

	"github.com/stint-tasks/stint/internal/localpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("approval", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:8080", "have the page at `ADDRESS`")
	url := flags.String("database-url", "",
		"use the database at `URL` instead of a temporary private one")
	once := flags.Bool("once", false, "approve the purchase as a person would, and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" {
		fmt.Fprintln(stdout, "keeping the purchase in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
		if err != nil {
			return err
		}
		defer server.Close() //nolint:errcheck // nothing in it is needed any more
		*url = server.URL("postgres")
	}
	if *once {
		*address = "127.0.0.1:0" // any port
	}
	return purchase(ctx, *url, *address, *once, stdout)
}
