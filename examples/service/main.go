// Command service is a small web service with tasks, to copy from: it takes orders over HTTP, and
// charges them in tasks that it performs itself.
//
//	go run -C examples ./service -database-url postgres://localhost/app
//
//	POST /orders       adds an order and its task in one transaction
//	GET  /orders/{id}  waits for the charge, and tells what is known of the order
//	GET  /metrics      is for Prometheus
//	GET  /ready        is for whoever sends requests here
//
// Without -database-url it uses a private PostgreSQL, which is gone at the end. With -once it
// places one order, prints the answers and ends.
//
// To copy from: service.go starts the parts and stops them in order, orders.go is what the service
// does. This file and once.go make an example of it that runs anywhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
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
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:8080", "take requests at `ADDRESS`")
	url := flags.String("database-url", "",
		"use the database at `URL` instead of a temporary private one")
	once := flags.Bool("once", false, "place one order, print the answers, and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" {
		fmt.Fprintln(stdout, "keeping the orders in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
		if err != nil {
			return err
		}
		defer server.Close() //nolint:errcheck // nothing in it is needed any more
		*url = server.URL("postgres")
	}
	if *once {
		*address = "127.0.0.1:0" // any free port
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // the server has closed it, unless it never began
	if !*once {
		fmt.Fprintf(stdout, "taking requests at http://%s\n", listener.Addr())
		return serve(ctx, *url, listener, stdout)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop() // also ends the order if the service cannot start
		served <- serve(ctx, *url, listener, stdout)
	}()
	err = placeOrder(ctx, "http://"+listener.Addr().String(), stdout)
	stop() // as a signal does
	return errors.Join(err, <-served)
}
