// Command shards performs a network of tasks over two databases, one of which goes away and comes
// back meanwhile.
//
//	go run -C examples ./shards
//
// It needs no database: it starts two private PostgreSQL servers, which are gone at the end, and
// really stops one of them. If the programs of PostgreSQL are missing, it says how to get them.
//
// Where to read:
//
//   - shop.go is the network, and what the workers of the two shards do.
//   - story.go is what happens: the order of events, and what is expected of them.
//   - servers.go starts and stops the servers. It knows nothing of tasks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint/shards"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	// Stores, workers and relays would log that a server is away. Here that is on purpose.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shards:", err)
		os.Exit(1)
	}
}

// run starts the servers, the relay and the workers, tells the story, and ends them.
func run(ctx context.Context, stdout io.Writer) (err error) {
	fmt.Fprintln(stdout, "two shards, eu and us, each with a PostgreSQL of its own")
	s, err := startServers(ctx, "eu", "us")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	topology, err := shards.Static(s.urls)
	if err != nil {
		return err
	}
	cluster, err := shards.New(topology, shards.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close(context.WithoutCancel(ctx))) }()
	working, stop := context.WithCancel(ctx)
	defer stop()
	all, working := errgroup.WithContext(working)
	all.Go(func() error { return cluster.Run(working) })
	for shard := range s.urls {
		w, err := newWorker(working, cluster, shard, stdout)
		if err != nil {
			stop()
			return errors.Join(err, all.Wait())
		}
		all.Go(func() error { return w.Run(working) })
	}
	err = tell(working, cluster, s, stdout)
	stop()
	return errors.Join(err, all.Wait())
}
