// Command mapreduce counts the words in Go's own source by a MapReduce on the task store, and then
// counts them directly, to compare.
//
//	go run -C examples ./mapreduce -dir "$(go env GOROOT)/src/net"
//
// Without -dir it counts the words in all of Go's source. It needs no database: it starts a private
// PostgreSQL, which is gone at the end. With -database-url it works in a schema of its own in a
// database of yours, and drops it at the end. With -server it works over the network, on a service
// (stint serve).
//
// Where to read:
//
//   - job.go is the MapReduce: what the tasks are, and what a worker does with them.
//   - words.go finds the files and counts words. It knows nothing of tasks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/taskstore"
	"github.com/stint-tasks/stint/taskstore/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mapreduce:", err)
		os.Exit(1)
	}
}

type options struct {
	dir         string
	workers     int
	databaseURL string
	server      string
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	opts, err := parseOptions(ctx, args)
	if err != nil {
		return err
	}
	lots, err := findLots(opts.dir)
	if err != nil {
		return err
	}
	j := &job{dir: opts.dir}
	if opts.server == "" {
		var drop func() error
		if j.store, drop, err = openStore(ctx, opts.databaseURL, stdout); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, drop()) }()
	} else {
		j.name = "mapreduce/" + uuid.NewString() + "/"
		if j.store, err = client.New(opts.server, http.DefaultClient); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "counting the words in %s in %s\n",
		display.Count(int64(lots.files()), "Go file"), opts.dir)
	return count(ctx, j, opts.workers, lots, stdout)
}

func parseOptions(ctx context.Context, args []string) (opts options, err error) {
	const workersDefault = 4
	flags := flag.NewFlagSet("mapreduce", flag.ContinueOnError)
	flags.StringVar(&opts.dir, "dir", "",
		"count the words of the Go files in `DIR` and below (default: Go's own source)")
	flags.IntVar(&opts.workers, "workers", workersDefault,
		"count with `N` workers; the first of several stops in the middle of a task")
	flags.StringVar(&opts.databaseURL, "database-url", "",
		"keep the tasks in the database at `URL` instead of a private one")
	flags.StringVar(&opts.server, "server", "",
		"keep the tasks in the task store of the service at `URL`: see stint help serve")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.workers < 1 {
		return opts, errors.New("-workers must be positive")
	}
	if opts.server != "" && opts.databaseURL != "" {
		return opts, errors.New("give -server or -database-url, not both")
	}
	if opts.dir == "" {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return opts, fmt.Errorf("find Go's source: %w", err)
		}
		opts.dir = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	return opts, nil
}

// count counts the words by tasks and directly, compares, and prints what came of it.
func count(
	ctx context.Context, j *job, workers int, lots lots, stdout io.Writer,
) error {
	got, err := j.run(ctx, lots, workers)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s and %s are done\n", display.Count(int64(len(lots)), "map task"),
		display.Count(partitions, "reduce task"))
	if workers > 1 && len(lots) > 0 {
		fmt.Fprintln(stdout, "a worker stopped in the middle of a task, which another did again")
	}
	want := counts{}
	for _, lot := range lots {
		if err := want.addFiles(j.dir, lot); err != nil {
			return err
		}
	}
	if !maps.Equal(got, want) {
		return errors.New("the counts differ from those of a single loop over the files")
	}
	const shown = 5
	words := slices.SortedFunc(maps.Keys(got), got.compare)
	for _, word := range words[:min(shown, len(words))] {
		fmt.Fprintf(stdout, "%12s  %s\n", display.Number(got[word]), word)
	}
	fmt.Fprintf(stdout, "%12s  different words: all counts equal those of a single loop\n",
		display.Number(int64(len(got))))
	return nil
}

// openStore opens a task store in a schema of its own, which drop drops; without a URL in a
// temporary PostgreSQL, which drop ends.
func openStore(
	ctx context.Context, url string, stdout io.Writer,
) (store *taskstore.Store, drop func() error, err error) {
	if url == "" {
		fmt.Fprintln(stdout, "keeping the tasks in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
		if err != nil {
			return nil, nil, err
		}
		store, drop, err := openSchema(ctx, server.URL("postgres"))
		if err != nil {
			return nil, nil, errors.Join(err, server.Close())
		}
		return store, func() error { return errors.Join(drop(), server.Close()) }, nil
	}
	return openSchema(ctx, url)
}

// openSchema opens a task store in a schema of its own, which drop drops.
func openSchema(
	ctx context.Context, url string,
) (store *taskstore.Store, drop func() error, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("-database-url: %w", err)
	}
	schema := "mapreduce_" + uuid.NewString()
	drop = func() error {
		defer pool.Close()
		const dropMax = 10 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropMax)
		defer cancel()
		_, err := pool.Exec(ctx,
			"DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		return err
	}
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.MigrateSchema(ctx, conn.Conn(), schema)
	})
	if err == nil {
		store, err = taskstore.New(pool, taskstore.Options{Schema: schema})
	}
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return store, drop, nil
}
