// Command mapreduce counts the words in Go's own source by a MapReduce on the task store, and then
// counts them directly, to compare.
//
//	go run ./examples/mapreduce -dir "$(go env GOROOT)/src/net"
//
// Without -dir it counts the words in all of Go's source. It needs no database: it starts a private
// PostgreSQL, which is gone at the end. With -database-url it works in a schema of its own in a
// database of yours, and drops it at the end.
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

	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/readable"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/taskstore"
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
	if opts.databaseURL == "" {
		fmt.Fprintln(stdout, "keeping the tasks in a temporary PostgreSQL")
		server, err := localpg.Start(ctx, localpg.Config{})
		if err != nil {
			return err
		}
		defer server.Close() //nolint:errcheck // nothing in it is needed any more
		opts.databaseURL = server.URL("postgres")
	}
	store, drop, err := openStore(ctx, opts.databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	fmt.Fprintf(stdout, "counting the words in %s in %s\n",
		readable.Count(int64(lots.files()), "Go file"), opts.dir)
	return count(ctx, store, opts, lots, stdout)
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
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.workers < 1 {
		return opts, errors.New("-workers must be positive")
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
	ctx context.Context, store *taskstore.Store, opts options, lots lots, stdout io.Writer,
) error {
	j := &job{store: store, dir: opts.dir}
	got, err := j.run(ctx, lots, opts.workers)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s and %s are done\n", readable.Count(int64(len(lots)), "map task"),
		readable.Count(partitions, "reduce task"))
	if opts.workers > 1 && len(lots) > 0 {
		fmt.Fprintln(stdout, "a worker stopped in the middle of a task, which another did again")
	}
	want := counts{}
	for _, lot := range lots {
		if err := want.addFiles(opts.dir, lot); err != nil {
			return err
		}
	}
	if !maps.Equal(got, want) {
		return errors.New("the counts differ from those of a single loop over the files")
	}
	const shown = 5
	words := slices.SortedFunc(maps.Keys(got), got.compare)
	for _, word := range words[:min(shown, len(words))] {
		fmt.Fprintf(stdout, "%12s  %s\n", readable.Number(got[word]), word)
	}
	fmt.Fprintf(stdout, "%12s  different words: all counts equal those of a single loop\n",
		readable.Number(int64(len(got))))
	return nil
}

// openStore opens a task store in a schema of its own, which drop drops.
func openStore(
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
