// This program runs a PostgreSQL server in a container for tests:
//
//	go run . IMAGE [SETTING=VALUE ...]
//
// It prints the address of the server, and removes the container when its input ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// If the tests are killed, nobody reads what the client says while it removes the container.
	signal.Ignore(syscall.SIGPIPE)
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts a server, prints its address, and removes it when the input ends, which also gives up
// a start.
func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: container IMAGE [SETTING=VALUE ...]")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, input) // an error ends it, too
	}()
	address, stop, err := startContainer(ctx, args[0], args[1:])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(output, address)
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, stop())
}
