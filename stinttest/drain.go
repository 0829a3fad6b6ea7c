package stinttest

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

var (
	//go:embed sql/make_next_due.sql
	makeNextDue string
	//go:embed sql/set_aside.sql
	setAside string
	//go:embed sql/put_back.sql
	putBack string
)

const (
	performancesMax = 1000

	// aside is how far a drain puts off tasks that came back. It is longer than any pause.
	aside = 100 * 365 * 24 * time.Hour
)

// A DrainOption adjusts [Drain].
type DrainOption func(*drain)

// WithScheduled makes [Drain] continue when nothing is ready: it makes the tasks that are scheduled
// next due, whether they have a NotBefore or wait for another try, until nothing is scheduled.
// Tasks of all actions are made due, but only those with a handler are performed.
func WithScheduled() DrainOption { return func(d *drain) { d.scheduled = true } }

// WithLimit replaces the limit of [Drain], 1,000 performances.
func WithLimit(performances int) DrainOption { return func(d *drain) { d.limit = performances } }

// Drain performs all ready tasks, and tasks that become ready meanwhile, with the handlers of a
// worker of the store, one after another in the calling goroutine, by priority and then by age. It
// returns the performances in that order. The worker may also be one of a client (package client)
// of a service that has the store: handlers then run as they do far from the database.
//
// Tasks with actions that have no handler stay as they are, and so do scheduled tasks whose time
// has not come.
//
// A task that is given back for another try is performed only once, however short the pause before
// the next try. Another Drain performs it if it is due by then ([MakeDue]); with [WithScheduled],
// this one does.
//
// A handler that fails does not fail the test: see [worker.Performed]. Since the goroutine of the
// test calls the handler, the handler may itself fail the test, even with FailNow. The test fails
// when there are more than 1,000 performances ([WithLimit]); the message names the action and the
// task that were performed most often. It also fails if the worker has no handlers, or the database
// fails.
func Drain(
	tb testing.TB, store *Store, w *worker.Worker, options ...DrainOption,
) []worker.Performed {
	tb.Helper()
	d := &drain{store: store, worker: w, limit: performancesMax}
	for _, option := range options {
		option(d)
	}
	if err := d.run(tb.Context()); err != nil {
		tb.Fatalf("Drain: %v", err)
	}
	return d.performed
}

type drain struct {
	store     *Store
	worker    *worker.Worker
	scheduled bool
	limit     int
	performed []worker.Performed
	aside     []stint.TaskID
}

func (d *drain) run(ctx context.Context) (err error) {
	defer func() { // also if a handler ends the goroutine
		if len(d.aside) > 0 {
			_, undoErr := d.store.Pool.Exec(context.WithoutCancel(ctx), d.store.in(putBack),
				d.aside, aside)
			err = errors.Join(err, undoErr)
		}
	}()
	for maintained := false; ; {
		performed, ok, err := d.worker.PerformNext(ctx)
		switch {
		case err != nil:
			return err
		case ok:
			maintained = false
			if err := d.note(ctx, performed); err != nil {
				return err
			}
		case !maintained: // tasks that end by themselves may make others ready
			maintained = true
			if err := d.store.Maintain(ctx); err != nil {
				return err
			}
		case d.scheduled:
			maintained = false
			due, err := d.store.Pool.Exec(ctx, d.store.in(makeNextDue))
			if err != nil || due.RowsAffected() == 0 {
				return err
			}
		default:
			return nil
		}
	}
}

// note notes a performance. It puts a task off that came back for another time, unless scheduled
// tasks are performed as well.
func (d *drain) note(ctx context.Context, performed worker.Performed) error {
	d.performed = append(d.performed, performed)
	if len(d.performed) > d.limit {
		return d.endless()
	}
	switch performed.Outcome {
	case worker.OutcomeRetried, worker.OutcomeSnoozed, worker.OutcomeOverdue:
		if d.scheduled {
			return nil
		}
	default:
		return nil
	}
	d.aside = append(d.aside, performed.Task.ID)
	_, err := d.store.Pool.Exec(ctx, d.store.in(setAside), performed.Task.ID, aside)
	return err
}

// endless returns an error about the action with the most performances, and the task of it that was
// performed most often: a handler may give one task back for ever, or insert ever new ones.
func (d *drain) endless() error {
	tasks, actions := map[stint.TaskID]int{}, map[string]int{}
	for _, performed := range d.performed {
		tasks[performed.Task.ID]++
		actions[performed.Task.Action]++
	}
	most := d.performed[0]
	for _, performed := range d.performed { // the last performance of it
		byAction := cmp.Compare(actions[performed.Task.Action], actions[most.Task.Action])
		byTask := cmp.Compare(tasks[performed.Task.ID], tasks[most.Task.ID])
		if cmp.Or(byAction, byTask) >= 0 {
			most = performed
		}
	}
	return fmt.Errorf("more than %d performances, %d of them with action %q, %d of these of task "+
		"%q, which was last %s; see WithLimit", d.limit, actions[most.Task.Action],
		most.Task.Action, tasks[most.Task.ID], most.Task.ID, describe(most))
}

func describe(performed worker.Performed) string {
	if performed.Err != nil {
		return fmt.Sprintf("%s (%v)", performed.Outcome, performed.Err)
	}
	return string(performed.Outcome)
}
