package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

const (
	// slots is how many tasks a worker performs at once.
	slots = 16
	// lease is for how long a task is owned unless the worker's heartbeat extends it.
	lease = 30 * time.Second
)

// errSmudged is the error of the photos that fail at first.
var errSmudged = errors.New("the photo is smudged")

// An agency has the handlers of the story.
type agency struct {
	// failed is told of a task whose handler is about to fail.
	failed func(task *worker.Task)
	// lost is told that the owner of a task has lost it.
	lost func(cause error)
}

// newWorker is a worker that performs these actions. It logs nothing: photos fail on purpose, and
// the story tells of it.
func (a *agency) newWorker(
	store *stint.Store, actor stint.ActorID, actions ...string,
) (*worker.Worker, error) {
	handlers := map[string]worker.Handler{
		actionOrder:   pretend,
		actionScan:    a.scan,
		actionDevelop: a.develop,
		actionPage:    a.add,
		actionIndex:   a.add,
		actionBind:    a.bind,
		actionPrint:   pretend,
		actionShip:    pretend,
	}
	performed := make([]worker.Registration, len(actions))
	for i, action := range actions {
		performed[i] = worker.Handle(action, handlers[action])
	}
	return worker.New(store, worker.Options{
		Actor: actor, Concurrency: slots, Lease: lease, StopGrace: 500 * time.Millisecond,
		Retry:  worker.Retry{Base: time.Second, Max: 2 * time.Second},
		Logger: slog.New(slog.DiscardHandler),
	}, performed...)
}

// scan scans a film. One of the films is lost: the handler would wait for it for ever.
func (a *agency) scan(ctx context.Context, task *worker.Task) (worker.Result, error) {
	if task.ID != lostScan() {
		return pretend(ctx, task)
	}
	if err := task.SetStatus(ctx, "waiting for a film that is lost in the post", 0); err != nil {
		return worker.Result{}, err
	}
	<-ctx.Done()
	a.lost(context.Cause(ctx))
	return worker.Result{}, context.Cause(ctx)
}

// develop develops a photo. An error gives the task back for another try, after a pause.
func (a *agency) develop(ctx context.Context, task *worker.Task) (worker.Result, error) {
	if _, err := pretend(ctx, task); err != nil {
		return worker.Result{}, err
	}
	if task.Try <= failures(task.ID, task.Action) {
		a.failed(task)
		return worker.Result{}, errSmudged
	}
	return worker.Result{Bytes: []byte("1")}, nil // one photo
}

// add adds up the photos in the results of the tasks that this one waited for.
func (*agency) add(ctx context.Context, task *worker.Task) (worker.Result, error) {
	inputs, err := task.Inputs(ctx)
	if err != nil {
		return worker.Result{}, err
	}
	photos, err := sum(inputs)
	if err != nil {
		return worker.Result{}, worker.Abort(err) // another try would find the same
	}
	_, err = pretend(ctx, task)
	return worker.Result{Bytes: []byte(strconv.Itoa(photos))}, err
}

// bind makes the book from the indexes that exist. Its task runs anyway, so it is told how many of
// the tasks that it waited for were aborted.
func (a *agency) bind(ctx context.Context, task *worker.Task) (worker.Result, error) {
	inputs, err := task.Inputs(ctx)
	if err != nil {
		return worker.Result{}, err
	}
	var indexes []stint.Input
	for _, input := range inputs {
		if strings.HasSuffix(string(input.ID), "/"+actionIndex) {
			indexes = append(indexes, input)
		}
	}
	photos, err := sum(indexes)
	if err != nil {
		return worker.Result{}, worker.Abort(err)
	}
	result := worker.Result{
		Bytes: []byte(strconv.Itoa(photos)), Status: bound(task.Completed, task.Aborted),
	}
	_, err = pretend(ctx, task)
	return result, err
}

// bound is the status of the bound book.
func bound(completed, aborted int) string {
	return fmt.Sprintf("told of %s completed and %s aborted tasks",
		grouped(completed), grouped(aborted))
}

func sum(inputs []stint.Input) (int, error) {
	total := 0
	for _, input := range inputs {
		if input.StatusCode != stint.StatusCompleted {
			continue
		}
		photos, err := strconv.Atoi(string(input.Result))
		if err != nil {
			return 0, fmt.Errorf("result of %q: %w", string(input.ID), err)
		}
		total += photos
	}
	return total, nil
}

// pretend is the work: it takes a while, and is given up when the task is lost or the worker stops.
func pretend(ctx context.Context, _ *worker.Task) (worker.Result, error) {
	const least, most = 100 * time.Millisecond, 200 * time.Millisecond
	pause := time.NewTimer(least + rand.N(most-least)) //nolint:gosec // no secret
	defer pause.Stop()
	select {
	case <-pause.C:
		return worker.Result{}, nil
	case <-ctx.Done():
		return worker.Result{}, context.Cause(ctx)
	}
}
