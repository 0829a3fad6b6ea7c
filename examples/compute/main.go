// Command compute lets clients share computations, while workers and the server die.
//
//	go run -C examples ./compute
//
// A computation is named by what it computes, and its name is the ID of its task. A client that
// wants a result inserts the task: whoever is first has it computed, and everybody else finds that
// it is there, pending, in progress or finished. All of them wait for the same task, so all get the
// same result. Nothing computes twice what is being computed, and nobody keeps a list of what is.
//
// Clients and workers are processes. Workers are killed at random, now and then all of them; some
// are stopped for longer than their lease, and come back as owners that are late; the PostgreSQL
// server crashes and restarts. At the end the program checks what it promised, by what the
// processes wrote down and not by asking the store, and prints a table.
//
// It needs no database: it starts a private PostgreSQL, which is gone at the end. With
// -database-url it works in schemas of its own in a database of yours, drops them at the end, and
// does not crash the server.
//
// Where to read:
//
//   - client.go asks: insert or join, then wait.
//   - worker.go is the loop: await, compute for as long as the task is owned, return it together
//     with a row of the application's own.
//   - factor.go is the computation.
//   - journal.go is where all processes write down what they do.
//   - check.go tells from the journal and the table of results whether all is as promised.
//   - chaos.go, crew.go and server.go kill, stop, crash, and start again.
//   - run.go holds it together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The exit codes.
const (
	exitProven      = 0 // All that was promised is so.
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // As of a program that Ctrl-C has ended.
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // So that a second Ctrl-C ends the program on the spot.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program from its arguments to its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitProven
	case err != nil:
		fmt.Fprintf(stderr, "compute: %v (-help lists the flags)\n", err)
		return exitUsage
	}
	if opts.process != "" {
		// Ctrl-C reaches this process too; the one that started it decides.
		err = opts.asProcess(context.WithoutCancel(ctx), os.Stdin)
	} else {
		err = opts.prove(ctx, stdout, stderr)
	}
	switch {
	case ctx.Err() != nil && opts.process == "":
		fmt.Fprintln(stderr, "compute: ended early")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "compute: %v\n", err)
		return exitFailed
	default:
		return exitProven
	}
}

type options struct {
	clients, requests, names, workers int

	hardest            uint64
	kill, pause, crash time.Duration // About how often; 0: never.
	lease, limit       time.Duration
	databaseURL        string
	journal            string // Empty: a temporary one.

	// Of clients and workers, which this program starts.
	process string
	client  int // 0: a worker.
	schema  string
	// together is how many requests a client makes at a time.
	together int
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("compute", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&opts.clients, "clients", 3, "start `N` client processes")
	flags.IntVar(&opts.requests, "requests", 300, "let them make `N` requests altogether")
	flags.IntVar(&opts.names, "names", 60, "for up to `N` computations")
	flags.IntVar(&opts.workers, "workers", 4, "start `N` worker processes")
	flags.Uint64Var(&opts.hardest, "hardest", 200_000_000,
		"find factors of up to about `P`, in time proportional to it")
	flags.DurationVar(&opts.kill, "kill", 700*time.Millisecond,
		"kill a worker about every so `often` at first, and each fifth time all of them;\n"+
			"0: never")
	flags.DurationVar(&opts.pause, "pause", time.Second,
		"stop a worker for one and a half leases about every so `often` at first; 0: never")
	flags.DurationVar(&opts.crash, "crash", 2500*time.Millisecond,
		"crash the private PostgreSQL about every so `often` at first; 0: never")
	flags.DurationVar(&opts.lease, "lease", time.Second, "own tasks for so `long` at a time")
	flags.DurationVar(&opts.limit, "limit", 2*time.Minute,
		"fail if the requests are not answered after so `long`")
	flags.StringVar(&opts.databaseURL, "database-url", "",
		"keep the tasks in the database at `URL`, which does not crash, instead of a private one")
	flags.StringVar(&opts.journal, "journal", "", "leave the journal in `FILE`, which must be new")
	flags.StringVar(&opts.process, "process", "", "be the process of that `name`; with -client\n"+
		"a client, else a worker: what this program starts")
	flags.IntVar(&opts.client, "client", 0, "be client `N`")
	flags.StringVar(&opts.schema, "schema", "", "use the tables in that `schema`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
		}
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	crash := false
	flags.Visit(func(set *flag.Flag) { crash = crash || set.Name == "crash" && opts.crash > 0 })
	if opts.databaseURL != "" && crash {
		return opts, errors.New("-crash is for the private PostgreSQL, not for -database-url")
	}
	if opts.databaseURL != "" {
		opts.crash = 0
	}
	const togetherDefault = 10
	opts.together = togetherDefault
	return opts, opts.check()
}

func (o options) check() error {
	const hardestMin, hardestMax = 1_000, 1_000_000_000
	switch {
	case o.clients < 1 || o.requests < 1 || o.names < 1 || o.workers < 1:
		return errors.New("-clients, -requests, -names and -workers must be positive")
	case o.names > o.requests:
		return errors.New("-names must not be more than -requests")
	case o.hardest < hardestMin || o.hardest > hardestMax:
		return fmt.Errorf("-hardest must be between %d and %d", hardestMin, hardestMax)
	case o.kill < 0 || o.pause < 0 || o.crash < 0:
		return errors.New("-kill, -pause and -crash must not be negative")
	case o.lease < time.Second:
		return errors.New("-lease must be a second at least")
	case o.limit <= 2*max(o.kill, o.pause, o.crash):
		return errors.New("-limit must be positive, and longer than twice -kill, -pause and -crash")
	}
	return nil
}

// workerArgs are the arguments of a worker.
func (o options) workerArgs(name string) []string {
	return []string{
		"-process", name, "-lease", o.lease.String(),
		"-database-url", o.databaseURL, "-schema", o.schema, "-journal", o.journal,
	}
}

// clientArgs are the arguments of a client.
func (o options) clientArgs(number int) []string {
	return append(o.workerArgs(fmt.Sprintf("client-%d", number)),
		"-client", strconv.Itoa(number), "-clients", strconv.Itoa(o.clients),
		"-requests", strconv.Itoa(o.requests), "-names", strconv.Itoa(o.names),
		"-hardest", strconv.FormatUint(o.hardest, 10))
}
