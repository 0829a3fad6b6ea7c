// Command export copies a directory tree through the queue: one task for each file.
//
//	go run -C examples ./export -from DIR -to DIR
//
// It needs no database: it starts a private PostgreSQL of its own, unless -database-url names one.
// Kill it at any moment, by Ctrl-C or by kill -9, and start it again with the same directories: it
// goes on where it was. (After kill -9 the few files that it had begun come last, when their lease
// has ended.) Start it twice, and both share the work.
//
// Regular files keep their permission bits and modification times, symbolic links stay links, and
// empty directories are kept. Owners, hard links and extended attributes are not. Files that are in
// the destination only are left alone.
//
// With -branches it does something else: it makes commits on so many branches, and exports the
// newest commit of each as often as it can, one export of a branch at a time, and checks that.
//
//	go run -C examples ./export -branches 3 -commits 20
//
// With -kill worker processes die at random meanwhile. Without -to it works in a temporary
// directory and with a temporary server, which are gone at the end. The package branch below this
// one is about it; branches.go and kill.go put it to work.
//
// Where to read about the copying of a tree:
//
//   - worker.go is the loop of every program that performs tasks: own, perform, return.
//   - plan.go inserts the tasks, and explains what a second run does.
//   - copy.go is the work itself; its point is that doing it twice does no harm.
//   - progress.go counts, and prints.
//   - queue.go opens the store.
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
	exitCopied      = 0 // All files are copied.
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
		return exitCopied
	case err != nil:
		fmt.Fprintf(stderr, "export: %v (-help lists the flags)\n", err)
		return exitUsage
	}
	context.AfterFunc(ctx, func() {
		if !opts.workersOnly { // Ctrl-C also reaches who started it, and that one says so.
			fmt.Fprintln(stderr, "\nexport: interrupted: finishing the files under way")
		}
	})
	export := exportTree
	if opts.branches > 0 {
		export = exportBranches
	}
	complete, err := export(ctx, opts, stdout)
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
		return exitCopied
	}
}

type options struct {
	from, to    string // Absolute, and without symbolic links.
	temporary   bool   // Nothing is to be left at the end. Then to is made up.
	databaseURL string
	workers     int
	lease       time.Duration

	branches    int // 0: copy the tree.
	commits     int
	pause       time.Duration
	kill        time.Duration // 0: nobody.
	workersOnly bool
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	const workersDefault, leaseDefault = 8, 10 * time.Second
	var opts options
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.from, "from", "", "copy the files in `DIR`")
	flags.StringVar(&opts.to, "to", "", "copy them to `DIR`, which is made if it is missing")
	flags.StringVar(&opts.databaseURL, "database-url", "",
		"keep the tasks in the database at `URL` instead of a private one; processes that share\n"+
			"a database and have the same two directories share the work")
	flags.IntVar(&opts.workers, "workers", workersDefault, "copy `N` files at a time")
	flags.DurationVar(&opts.lease, "lease", leaseDefault,
		"give what this process had begun to others when it has been dead for so `long`")
	opts.branchFlags(flags)
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
	case opts.branches == 0 && (opts.from == "" || opts.to == ""):
		return opts, errors.New("-from and -to are needed")
	case opts.to == "" && (opts.databaseURL != "" || opts.workersOnly):
		return opts, errors.New("-to is needed")
	case opts.workers < 1:
		return opts, errors.New("-workers must be positive")
	case opts.lease < time.Second:
		return opts, errors.New("-lease must be a second at least")
	}
	if err := opts.checkBranchFlags(); err != nil {
		return opts, err
	}
	opts.temporary = opts.to == ""
	return opts, checkDirectories(&opts)
}

// checkDirectories resolves the two directories, so that their names identify the pair however they
// are spelled, and refuses pairs of which one would be copied into itself. Branches have no need of
// either.
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

// exportTree copies the tree, and reports whether all of its files are copied.
func exportTree(ctx context.Context, opts options, stdout *os.File) (complete bool, err error) {
	queue, err := openQueue(ctx, opts, stdout)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, queue.close()) }()

	job := newJob(opts.from, opts.to)
	copier, err := newCopier(opts, job)
	if err != nil {
		return false, err
	}
	defer copier.close()

	tree, err := walk(ctx, opts.from)
	if err != nil {
		return false, err
	}
	if err := copier.makeDirectories(tree.directories); err != nil {
		return false, err
	}
	ledger, err := plan(ctx, queue.store, job, tree, copier)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(stdout, ledger.opening())
	stopPrinting := ledger.printProgress(stdout)
	err = work(ctx, opts, worker{
		store: queue.store, copier: copier, ledger: ledger,
		actions: []string{job.action}, lease: opts.lease,
	})
	stopPrinting()
	if err == nil && ctx.Err() == nil {
		tree.problems = append(tree.problems, copier.finish(tree.directories)...)
	}
	fmt.Fprint(stdout, ledger.summary(tree))
	return ledger.complete(tree), err
}
