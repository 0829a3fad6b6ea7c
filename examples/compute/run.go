package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

// asProcess is the life of a client or a worker, which ends with its input at the latest.
func (o options) asProcess(ctx context.Context, input io.Reader) (err error) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx, goOn, stop := untilEnd(ctx, input)
	defer stop()
	journal, err := openJournal(o.journal, o.process)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.close()) }()
	db, err := openDatabase(ctx, o.databaseURL, o.schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	if o.client > 0 {
		c := &client{store: db.store, journal: journal}
		err = c.askForShare(ctx, o, goOn)
	} else {
		w := &worker{
			database: db, journal: journal, actor: stint.ActorID(o.process), lease: o.lease,
		}
		err = w.loop(ctx)
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// prove makes a run, judges it, and prints what came of it.
func (o options) prove(ctx context.Context, stdout, stderr io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit,
		fmt.Errorf("the requests are not answered after %v", o.limit))
	defer cancel()
	if o.journal == "" {
		dir, err := os.MkdirTemp("", "stint-compute-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // Nothing can be done.
		o.journal = filepath.Join(dir, "journal")
	} else if _, err := os.Lstat(o.journal); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("-journal: %s must not exist", o.journal)
	}
	var crashing *server
	if o.databaseURL == "" {
		if crashing, err = startServer(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, crashing.close()) }()
		o.databaseURL = crashing.url
	}
	o.schema = "compute_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := makeSchemas(ctx, o.databaseURL, o.schema); err != nil {
		return err
	}
	defer func() {
		const dropMax = 10 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropMax)
		defer cancel()
		err = errors.Join(err, dropSchemas(ctx, o.databaseURL, o.schema))
	}()
	fmt.Fprintf(stdout, "%d clients make %d requests for %d computations, %d workers compute\n",
		o.clients, o.requests, o.names, o.workers)
	found, err := o.produce(ctx, crashing, stderr)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, found.table())
	if problems := check(found); len(problems) > 0 {
		return fmt.Errorf("what was promised is not so:\n\t%s", strings.Join(problems, "\n\t"))
	}
	fmt.Fprintln(stdout, "every request got the one result of its computation, "+
		"and no computation had two owners at a time")
	return nil
}

// produce lets clients and workers loose, and returns the evidence of what they did.
func (o options) produce(
	ctx context.Context, crashing *server, stderr io.Writer,
) (found evidence, err error) {
	journal, err := openJournal(o.journal, "compute")
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, journal.close()) }()
	db, err := openDatabase(ctx, o.databaseURL, o.schema)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	crew := &crew{opts: o, journal: journal, stderr: stderr, fail: fail}
	defer crew.end()
	if err := crew.start(); err != nil {
		return found, err
	}
	strike := chaos{opts: o, crew: crew, server: crashing, journal: journal}
	if err := o.duringChaos(working, fail, strike, stderr); err != nil {
		return found, err
	}
	c := &client{store: db.store, journal: journal}
	if err := o.askAgain(working, c); err != nil {
		return found, err
	}
	crew.end()
	return o.gather(ctx, db)
}

// duringChaos runs the clients to their end. They make the second half of their requests when all
// that is to strike has struck once, however fast the machine.
func (o options) duringChaos(
	ctx context.Context, fail context.CancelCauseFunc, strike chaos, stderr io.Writer,
) error {
	var clients []*process
	defer func() {
		for _, c := range clients {
			c.end()
		}
	}()
	for number := 1; number <= o.clients; number++ {
		c, err := startProcess(fmt.Sprintf("client-%d", number), stderr, o.clientArgs(number)...)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	strike.struck = func() {
		for _, c := range clients {
			c.goOn()
		}
	}
	striking, calm := context.WithCancel(ctx)
	calmed := make(chan struct{})
	go func() {
		defer close(calmed)
		strike.run(striking, fail)
	}()
	defer func() {
		calm()
		<-calmed
	}()
	for _, c := range clients {
		select {
		case <-c.ended:
			if c.err != nil {
				return fmt.Errorf("%s: %w", c.name, c.err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}

// askAgain asks for finished computations, whose results are there, and then makes some of them be
// computed once more.
func (o options) askAgain(ctx context.Context, c *client) error {
	request := o.requests
	var again []stint.TaskID
	for number := range o.again() {
		id := factorName(number, o.hardest)
		again = append(again, id)
		request++
		if err := c.ask(ctx, request, id); err != nil {
			return err
		}
	}
	if _, err := c.store.DeleteTasks(ctx, again); err != nil {
		return err
	}
	for _, id := range again {
		if err := c.journal.write(entry{Kind: deleted, Computation: id}); err != nil {
			return err
		}
		request++
		if err := c.ask(ctx, request, id); err != nil {
			return err
		}
	}
	return nil
}

// again is how many finished computations are asked for once more, before and after they are
// deleted.
func (o options) again() int {
	const most = 3
	return min(o.names, most)
}

// gather reads the evidence.
func (o options) gather(ctx context.Context, db *database) (found evidence, err error) {
	found.expected = o.requests + 2*o.again()
	file, err := os.Open(o.journal)
	if err != nil {
		return found, err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	if found.entries, found.torn, err = readJournal(file); err != nil {
		return found, err
	}
	found.results, err = db.results(ctx)
	return found, err
}
