// Command export makes commits on a few branches, and exports the newest commit of each as often as
// it can, one export of a branch at a time. At the end it checks that.
//
//	go run -C examples ./export -branches 3 -commits 20
//
// It needs no database: it starts a private PostgreSQL of its own, unless -database-url names one.
// Without -to it works in a temporary directory and with a temporary server, which are gone at the
// end. With -to it goes on where a run that was killed has stopped. With -kill worker processes die
// at random meanwhile.
//
// The package branch below this one is what it is about; branches.go and kill.go put it to work,
// and queue.go opens the store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// The exit codes.
const (
	exitExported    = 0 // All branches are exported.
	exitIncomplete  = 1
	exitUsage       = 2
	exitInterrupted = 130 // As of a program that Ctrl-C has ended.
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // So that a second Ctrl-C ends the program on the spot.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program from its arguments to its exit code.
func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitExported
	case err != nil:
		fmt.Fprintf(stderr, "export: %v (-help lists the flags)\n", err)
		return exitUsage
	}
	context.AfterFunc(ctx, func() {
		if !opts.workersOnly { // Ctrl-C also reaches who started it, and that one says so.
			fmt.Fprintln(stderr, "\nexport: interrupted: finishing what is under way")
		}
	})
	complete, err := exportBranches(ctx, opts, stdout)
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		fmt.Fprintf(stderr, "export: %v\n", err)
	}
	switch {
	case ctx.Err() != nil && opts.workersOnly:
		return exitInterrupted
	case ctx.Err() != nil && opts.temporary:
		fmt.Fprintln(stderr, "export: ended early")
		return exitInterrupted
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "export: ended early; the same command goes on from here")
		return exitInterrupted
	case err != nil || !complete:
		return exitIncomplete
	default:
		return exitExported
	}
}

type options struct {
	from, to    string // Absolute, and without symbolic links.
	temporary   bool   // Nothing is to be left at the end. Then to is made up.
	databaseURL string
	workers     int
	lease       time.Duration
	branches    int
	commits     int
	pause       time.Duration
	kill        time.Duration // 0: nobody.
	workersOnly bool
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	opts.register(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
		}
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.to == "" && (opts.databaseURL != "" || opts.workersOnly):
		return opts, errors.New("-to is needed")
	case opts.workers < 1:
		return opts, errors.New("-workers must be positive")
	case opts.lease < time.Second:
		return opts, errors.New("-lease must be a second at least")
	case opts.branches < 1:
		return opts, errors.New("-branches must be positive")
	case opts.commits < 1:
		return opts, errors.New("-commits must be positive")
	case opts.pause < 0 || opts.kill < 0:
		return opts, errors.New("-pause and -kill must not be negative")
	}
	opts.temporary = opts.to == ""
	return opts, checkDirectories(&opts)
}

func (o *options) register(flags *flag.FlagSet) {
	const (
		workersDefault, leaseDefault    = 8, 10 * time.Second
		branchesDefault, commitsDefault = 3, 20
		pauseDefault                    = 50 * time.Millisecond
	)
	flags.IntVar(&o.branches, "branches", branchesDefault, "make commits on `N` branches")
	flags.IntVar(&o.commits, "commits", commitsDefault, "make `N` commits on each branch")
	flags.DurationVar(&o.pause, "pause", pauseDefault,
		"make a commit on each branch `so often` on average")
	flags.StringVar(&o.from, "from", "",
		"let the first commits have a few small files of `DIR`; made-up ones without it")
	flags.StringVar(&o.to, "to", "",
		"export to `DIR`, which is made if it is missing; without it all is temporary")
	flags.StringVar(&o.databaseURL, "database-url", "",
		"keep the tasks in the database at `URL` instead of a private one")
	flags.IntVar(&o.workers, "workers", workersDefault, "perform `N` tasks at a time")
	flags.DurationVar(&o.lease, "lease", leaseDefault,
		"give what this process had begun to others when it has been dead for so `long`")
	flags.DurationVar(&o.kill, "kill", 0,
		"kill a process of the workers `so often` on average; with -lease 1s their tasks pass on\n"+
			"soon")
	flags.BoolVar(&o.workersOnly, "workers-only", false,
		"only perform tasks, until the standard input ends")
}

// checkDirectories resolves the two directories, so that their names identify the pair however they
// are spelled, and refuses pairs of which one is inside the other.
func checkDirectories(opts *options) (err error) {
	if opts.from != "" {
		from, err := os.Stat(opts.from)
		if err != nil {
			return fmt.Errorf("-from: %w", err)
		}
		if !from.IsDir() {
			return fmt.Errorf("-from: %s is not a directory", opts.from)
		}
	}
	if to, err := os.Stat(opts.to); err == nil && !to.IsDir() {
		return fmt.Errorf("-to: %s is not a directory", opts.to)
	}
	if opts.from, err = resolve(opts.from); err != nil {
		return fmt.Errorf("-from: %w", err)
	}
	if opts.to, err = resolve(opts.to); err != nil {
		return fmt.Errorf("-to: %w", err)
	}
	both := opts.from != "" && opts.to != ""
	if both && (contains(opts.from, opts.to) || contains(opts.to, opts.from)) {
		return fmt.Errorf("-from and -to must not be the same or inside one another: %s, %s",
			opts.from, opts.to)
	}
	return nil
}

// resolve returns the absolute path of what may not exist yet, with the symbolic links resolved in
// the part that does, and "" for "".
func resolve(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
		return resolved, err
	}
	parent, err := resolve(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// contains reports whether path is dir or below it. It compares the directories themselves, since
// some file systems have several spellings for a name.
func contains(dir, path string) bool {
	want, err := os.Stat(dir)
	if err != nil {
		return false // What does not exist contains nothing.
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, want) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}
