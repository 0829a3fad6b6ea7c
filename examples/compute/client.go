package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// A client asks for computations.
type client struct {
	store   *stint.Store
	journal *journal
}

// ask gets the result of a computation, by inserting its task or by joining others who have. It
// survives what a client may meet: a database that goes away at any moment.
func (c *client) ask(ctx context.Context, request int, id stint.TaskID) error {
	err := c.journal.write(entry{Kind: asked, Request: request, Computation: id})
	if err != nil {
		return err
	}
	start := time.Now()
	insertion, err := c.insert(ctx, id)
	if err != nil {
		return err
	}
	var info stint.TaskInfo
	err = keepTrying(ctx, func() (err error) {
		info, err = c.store.WaitForTask(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	if info.StatusCode != stint.StatusCompleted {
		return fmt.Errorf("%s is %s (%s)", id, info.StatusCode, info.AbortCause)
	}
	answer := answer{}
	if err := json.Unmarshal(info.Result, &answer); err != nil {
		return fmt.Errorf("result of %s: %w", id, err)
	}
	return c.journal.write(entry{
		Kind: answered, Request: request, Computation: id, Answer: answer,
		Insertion: insertion, InsertedAt: info.InsertedAt, Waited: time.Since(start),
	})
}

// insert sees to it that there is a task for a computation. All that a client needs for that is the
// name: the store refuses a second task of that ID, be the first one pending, in progress or
// finished.
func (c *client) insert(ctx context.Context, id stint.TaskID) (insertion, error) {
	attempts := 0
	err := keepTrying(ctx, func() error {
		attempts++
		return c.store.InsertTasks(ctx, []stint.Task{factorTask(id)})
	})
	switch {
	case err == nil:
		return inserted, nil
	case !errors.Is(err, stint.ErrTaskExists):
		return "", err
	case attempts > 1: // One that was cut off may have inserted it.
		return unsure, nil
	}
	return joined, nil
}

// askForShare makes the requests of one client out of several, some of them at a time, and the
// second half of them when it may go on.
func (c *client) askForShare(ctx context.Context, opts options, goOn <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	requests := make(chan int)
	var asking sync.WaitGroup
	for range opts.together {
		asking.Go(func() {
			for request := range requests {
				if err := c.ask(ctx, request, opts.nameOf(request)); err != nil {
					cancel(err)
				}
			}
		})
	}
	// Requests count from one.
	for request := opts.client; request <= opts.requests && ctx.Err() == nil; {
		if request > opts.requests/2 {
			select {
			case <-goOn:
			case <-ctx.Done():
				continue
			}
		}
		select {
		case requests <- request:
			request += opts.clients
		case <-ctx.Done():
		}
	}
	close(requests)
	asking.Wait()
	return context.Cause(ctx)
}

// nameOf is the computation that a request is for. Neighbours often ask for the same, and each is
// asked for.
func (o options) nameOf(request int) stint.TaskID {
	const spread = 5
	number := (request - 1) * o.names / o.requests
	if first := (request-2)*o.names/o.requests < number; !first {
		number += rand.N(spread) //nolint:gosec // no secret
	}
	return factorName(min(number, o.names-1), o.hardest)
}
