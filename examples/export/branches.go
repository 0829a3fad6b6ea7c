package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/examples/export/branch"
)

// exportBranches makes commits and exports them at the same time, and reports whether all is in the
// destination, and came there as promised.
func exportBranches(ctx context.Context, opts options, stdout *os.File) (kept bool, err error) {
	removeDestination, err := makeDestination(&opts)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, removeDestination()) }()
	queue, err := openQueue(ctx, opts, stdout)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, queue.close()) }()
	exporter, err := branch.New(ctx, queue.pool, queue.store, opts.to, opts.lease)
	if err != nil {
		return false, err
	}
	if opts.workersOnly {
		ctx, stop := untilEnd(ctx, os.Stdin)
		defer stop()
		return true, exporter.Work(ctx, processName(), opts.workers)
	}
	producer, err := newProducer(opts, exporter, queue.store)
	if err != nil {
		return false, err
	}
	if err := producer.addBranches(ctx); err != nil {
		return false, err
	}
	fmt.Fprintf(stdout, "making %d commits on each of %d branches, and exporting the newest\n",
		opts.commits, opts.branches)
	err = atWork(ctx, opts, queue, exporter, stdout, producer.run)
	if err != nil || ctx.Err() != nil {
		return false, err
	}
	return printReports(ctx, exporter, producer.branches, stdout)
}

// makeDestination makes the directory, and returns what removes it if it is a temporary one.
func makeDestination(opts *options) (remove func() error, err error) {
	if !opts.temporary {
		const openToOthers = 0o777                // But for the umask.
		err := os.MkdirAll(opts.to, openToOthers) //nolint:gosec // It is for the user to say where.
		if err != nil {
			return nil, fmt.Errorf("-to: %w", err)
		}
		return func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "stint-export-")
	if err != nil {
		return nil, err
	}
	opts.to, err = resolve(dir)
	return func() error { return os.RemoveAll(dir) }, err
}

// atWork calls job while workers are at work, and stops them afterwards. Any of them that fails
// ends all.
func atWork(
	ctx context.Context, opts options, queue *queue, exporter *branch.Exporter, stdout io.Writer,
	job func(context.Context) error,
) error {
	working, stop := context.WithCancelCause(ctx)
	var workers sync.WaitGroup
	workers.Go(func() {
		var err error
		if opts.kill > 0 {
			err = newHerd(opts, queue.url, stdout).work(working)
		} else {
			err = exporter.Work(working, processName(), opts.workers)
		}
		if err != nil {
			stop(err)
		}
	})
	if err := job(working); err != nil {
		stop(err)
	}
	stop(nil)
	workers.Wait()
	if err := context.Cause(working); ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// A producer makes the commits.
type producer struct {
	exporter *branch.Exporter
	store    *stint.Store
	branches []string
	prefixes []string
	first    []branch.Change
	commits  int64
	pause    time.Duration
}

func newProducer(opts options, exporter *branch.Exporter, store *stint.Store) (*producer, error) {
	p := &producer{
		exporter: exporter, store: store, commits: int64(opts.commits), pause: opts.pause,
		first: branch.GeneratedTree(), prefixes: branch.GeneratedPrefixes(),
	}
	for n := range opts.branches {
		p.branches = append(p.branches, fmt.Sprintf("branch-%d", n+1))
	}
	if opts.from == "" {
		return p, nil
	}
	var err error
	if p.first, p.prefixes, err = branch.ReadTree(os.DirFS(opts.from)); err != nil {
		return nil, fmt.Errorf("-from: %w", err)
	}
	if len(p.first) == 0 {
		return nil, errors.New("-from: there are no files that are small")
	}
	return p, nil
}

// addBranches adds those that an earlier run has not. It asks for an export of the others, lest
// what that run failed to export stays so.
func (p *producer) addBranches(ctx context.Context) error {
	for _, name := range p.branches {
		if err := p.exporter.AddBranch(ctx, name, p.prefixes); err != nil {
			return err
		}
		if err := p.exporter.Request(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// run makes the commits, on all branches at once, and then waits until no task is left.
func (p *producer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var committers sync.WaitGroup
	for _, name := range p.branches {
		committers.Go(func() {
			if err := p.commit(ctx, name); err != nil {
				cancel(err)
			}
		})
	}
	committers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.waitForTasks(ctx)
}

// commit makes commits until the branch has as many as it should, those of earlier runs included.
func (p *producer) commit(ctx context.Context, name string) error {
	for {
		made, err := p.exporter.Commit(ctx, name, p.change)
		if err != nil || !made {
			return err
		}
		if err := sleep(ctx, rand.N(2*p.pause+1)); err != nil { //nolint:gosec // no secret
			return err
		}
	}
}

func (p *producer) change(head int64, tree branch.Tree) []branch.Change {
	switch head {
	case p.commits:
		return nil
	case 0:
		return p.first
	default:
		return branch.RandomChanges(head, tree)
	}
}

func (p *producer) waitForTasks(ctx context.Context) error {
	const pause = 200 * time.Millisecond
	unfinished := stint.Filter{Limit: 1, States: []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
	}}
	for {
		left, err := p.store.ListTasks(ctx, unfinished)
		if err != nil || len(left.Tasks) == 0 {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// printReports reports whether all branches are as they should be.
func printReports(
	ctx context.Context, exporter *branch.Exporter, branches []string, stdout io.Writer,
) (kept bool, err error) {
	var problems []string
	const row = "%-12s %8v  %7v  %10v  %9v  %13v  %11v  %7v\n"
	fmt.Fprintf(stdout, row, "branch", "requests", "exports", "superseded", "at a time",
		"newest commit", "last export", "objects")
	for _, name := range branches {
		report, err := exporter.Report(ctx, name)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, row, name, report.Requests, report.Exports, report.Superseded,
			report.Together, report.Head, report.Exported, report.Objects)
		for _, problem := range report.Problems {
			problems = append(problems, name+": NOT AS PROMISED: "+problem)
		}
	}
	if len(problems) > 0 {
		fmt.Fprintln(stdout, strings.Join(problems, "\n"))
		return false, nil
	}
	fmt.Fprintln(stdout, "the destinations equal the newest commits, byte for byte")
	return true, nil
}

// processName is what the names of all workers of this process begin with, for people to see.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("export %s/%d/", host, os.Getpid())
}
