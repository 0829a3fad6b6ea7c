package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// A Worker performs tasks with handlers. [New] makes it, and [Worker.Run] runs it once.
type Worker struct {
	queue     Queue
	options   Options
	telemetry *telemetry
	actions   map[string]*handling
	failures  *outage.Tallies
	// joined is sent to when a task joins others for a call and all slots are taken.
	joined  chan struct{}
	started atomic.Bool
}

// New returns a worker that performs tasks of queue, which is a *[stint.Store] or a client of a
// service, with handlers, which [Handle] and [HandleJSON] make, one for each action. It does not
// contact the database yet.
//
// New refuses invalid options, no handlers, a nil handler, an action that no task can have, and a
// second handler of an action, with a [*stint.ArgumentError].
func New(queue Queue, options Options, handlers ...Registration) (*Worker, error) {
	w, err := newWorker(queue, options, handlers)
	if err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}
	return w, nil
}

func newWorker(queue Queue, options Options, handlers []Registration) (*Worker, error) {
	if store, ok := queue.(*stint.Store); queue == nil || ok && store == nil {
		return nil, argumentError("queue", "must not be nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	telemetry, err := newTelemetry(options)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		queue: queue, options: options, telemetry: telemetry, actions: map[string]*handling{},
		failures: outage.NewTallies(options.Logger), joined: make(chan struct{}, 1),
	}
	if len(handlers) == 0 {
		return nil, argumentError("handlers", "must not be empty")
	}
	for _, registration := range handlers {
		if err := w.register(registration); err != nil {
			return nil, fmt.Errorf("handle action %.80q: %w", registration.action, err)
		}
	}
	return w, nil
}

func (w *Worker) register(r Registration) error {
	if err := checkName("action", r.action); err != nil {
		return err
	}
	switch {
	case r.action == stint.Spontaneous:
		return argumentError("action", "spontaneous tasks are never fetched")
	case r.action == stint.External:
		return argumentError("action", "external tasks are answered, never fetched")
	case r.handler == nil:
		return argumentError("handler", "must not be nil")
	case w.actions[r.action] != nil:
		return argumentError("action", "must not have two handlers")
	}
	h := &handling{
		handler: r.handler, retry: w.options.Retry, telemetry: w.telemetry.of(r.action),
	}
	for _, option := range r.options {
		if err := option(h); err != nil {
			return err
		}
	}
	if h.grace > 0 && h.timeout == 0 {
		return argumentError("WithTimeoutGrace", "must come with WithTimeout")
	}
	h.grace = cmp.Or(h.grace, timeoutGraceDefault)
	if h.gatherer != nil {
		h.gatherer.telemetry, h.gatherer.joined = w.telemetry, w.joined
		if err := h.gatherer.size(w.slotsOf(h)); err != nil {
			return err
		}
	}
	for _, middleware := range slices.Backward(w.options.Middleware) {
		h.handler = middleware(h.handler)
		if h.handler == nil {
			return argumentError("Options.Middleware", "must not return a nil handler")
		}
	}
	w.actions[r.action] = h
	return nil
}

// names returns the actions that have handlers.
func (w *Worker) names() []string { return slices.Sorted(maps.Keys(w.actions)) }

// slots is how many tasks can be performed at once.
func (w *Worker) slots() int {
	slots := 0
	for _, of := range w.actions {
		slots += w.slotsOf(of)
	}
	return min(slots, w.options.Concurrency)
}

// calls is how many handlers can run at once: as many as slots, but a call for a batch is one.
func (w *Worker) calls() int {
	calls := 0
	for _, of := range w.actions {
		n := w.slotsOf(of)
		if of.gatherer != nil && !of.gatherer.ByKey {
			n = (n + of.gatherer.Size - 1) / of.gatherer.Size
		}
		calls += n
	}
	return min(calls, w.options.Concurrency)
}

// slotsOf is how many tasks of an action can be performed at once.
func (w *Worker) slotsOf(of *handling) int {
	if of.concurrency == 0 {
		return w.options.Concurrency
	}
	return min(of.concurrency, w.options.Concurrency)
}

// gather has tasks of batches wait for others from now on, or no longer.
func (w *Worker) gather(open bool) {
	for _, of := range w.actions {
		if of.gatherer != nil {
			of.gatherer.setOpen(open)
		}
	}
}
