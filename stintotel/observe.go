// Package stintotel exports to OpenTelemetry how many tasks a store holds, and has tasks carry the
// trace of whoever inserts them ([Headers]). Package worker has metrics and spans of its own for
// performances.
//
//	stint.tasks{stint.task.action, stint.task.state} tasks in each state
//	stint.oldest_ready{stint.task.action}            seconds that the oldest ready task has been
//	                                                 ready, 0 if none is
//	stint.estimated{stint.task.state}                1 if the number is an estimate, else 0
//	stint.tries{stint.task.action}                   tasks that were fetched
//	stint.retries{stint.task.action}                 the same, without first tries
//	stint.lost_tasks{stint.task.action}              aborted tasks that lost several owners in a
//	                                                 row
//	stint.pruning_behind                             seconds that finished tasks are pruned late
//	stint.parked_tasks{stint.task.action}            ready tasks that wait for capacity below a
//	                                                 limit of their key, its pause to end, or its
//	                                                 turn
//	stint.concurrency_limit{stint.task.action}       how many tasks may be in progress at once
//	stint.paused{stint.task.action}                  1 if the action is paused, else 0
//
// Actions without limits and pauses have no series of the last three, and those without a limit of
// the tasks in progress no stint.concurrency_limit.
//
// An action has all six states, zeros included, as long as [stint.Stats] lists it.
package stintotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stint-tasks/stint"
)

const scope = "github.com/stint-tasks/stint"

// triesMax is for how many actions Stats tells the tries. Of more actions it tells zero for some
// that were fetched before, which would look like a counter that began anew.
const triesMax = 1000

const (
	actionKey = attribute.Key("stint.task.action")
	stateKey  = attribute.Key("stint.task.state")
)

// Observe makes the provider call [stint.Store.Stats] whenever it collects. It is enough if one of
// the processes that share a database does so. [metric.Registration.Unregister] ends it.
func Observe(store *stint.Store, provider metric.MeterProvider) (metric.Registration, error) {
	registration, err := observe(store, provider.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("observe store: %w", err)
	}
	return registration, nil
}

func observe(store *stint.Store, meter metric.Meter) (metric.Registration, error) {
	i, err := newInstruments(meter)
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		stats, err := store.Stats(ctx)
		if err != nil {
			return err
		}
		i.observe(o, stats)
		return nil
	}, i.tasks, i.oldest, i.lost, i.behind, i.estimated, i.tries, i.retries, i.parked,
		i.concurrency, i.paused)
}

type instruments struct {
	tasks, estimated, lost metric.Int64ObservableGauge
	oldest, behind         metric.Float64ObservableGauge
	tries, retries         metric.Int64ObservableCounter

	parked, concurrency, paused metric.Int64ObservableGauge
}

func newInstruments(meter metric.Meter) (instruments, error) {
	var i instruments
	errs := make([]error, 10) //nolint:mnd // one for each
	i.tasks, errs[0] = meter.Int64ObservableGauge("stint.tasks",
		metric.WithDescription("Tasks in the store."), metric.WithUnit("{task}"))
	i.oldest, errs[1] = meter.Float64ObservableGauge("stint.oldest_ready",
		metric.WithUnit("s"), metric.WithDescription(
			"How long the oldest ready task has been ready, 0 if none is."))
	i.estimated, errs[2] = meter.Int64ObservableGauge("stint.estimated", metric.WithDescription(
		"1 where there are so many tasks that their number is an estimate, else 0."))
	i.tries, errs[3] = meter.Int64ObservableCounter("stint.tries",
		metric.WithDescription("Tasks that were fetched."), metric.WithUnit("{task}"))
	i.retries, errs[4] = meter.Int64ObservableCounter("stint.retries",
		metric.WithDescription("Tasks that were fetched not for their first try."),
		metric.WithUnit("{task}"))
	i.behind, errs[5] = meter.Float64ObservableGauge("stint.pruning_behind", metric.WithDescription(
		"For how much longer than their retention finished tasks stay."), metric.WithUnit("s"))
	i.parked, errs[6] = meter.Int64ObservableGauge("stint.parked_tasks",
		metric.WithUnit("{task}"), metric.WithDescription(
			"Ready tasks that wait for room, a resume or the turn of their key."))
	i.concurrency, errs[7] = meter.Int64ObservableGauge("stint.concurrency_limit",
		metric.WithDescription("How many tasks may be in progress at once."),
		metric.WithUnit("{task}"))
	i.paused, errs[8] = meter.Int64ObservableGauge("stint.paused",
		metric.WithDescription("1 if the action is paused, else 0."))
	i.lost, errs[9] = meter.Int64ObservableGauge("stint.lost_tasks", metric.WithUnit("{task}"),
		metric.WithDescription("Aborted tasks that lost several owners in a row."))
	return i, errors.Join(errs...)
}

func (i *instruments) observe(o metric.Observer, stats stint.Stats) {
	estimated := map[stint.State]int64{}
	for _, state := range stats.Estimated {
		estimated[state] = 1
	}
	for state := range (stint.ActionStats{}).ByState() {
		o.ObserveInt64(i.estimated, estimated[state],
			metric.WithAttributes(stateKey.String(string(state))))
	}
	for _, of := range stats.Actions {
		action := actionKey.String(of.Action)
		for state, n := range of.ByState() {
			o.ObserveInt64(i.tasks, n,
				metric.WithAttributes(action, stateKey.String(string(state))))
		}
		o.ObserveFloat64(i.oldest, of.OldestReady.Seconds(), metric.WithAttributes(action))
		o.ObserveInt64(i.lost, of.Lost, metric.WithAttributes(action))
		if of.Tries > 0 || len(stats.Actions) <= triesMax {
			o.ObserveInt64(i.tries, of.Tries, metric.WithAttributes(action))
			o.ObserveInt64(i.retries, of.Retries, metric.WithAttributes(action))
		}
		i.observeLimits(o, of)
	}
	o.ObserveFloat64(i.behind, stats.PruningBehind.Seconds())
}

// observeLimits observes the limits of an action that has some, or is paused.
func (i *instruments) observeLimits(o metric.Observer, of stint.ActionStats) {
	if !of.Limited && !of.Paused && of.Parked == 0 {
		return
	}
	action := metric.WithAttributes(actionKey.String(of.Action))
	paused := int64(0)
	if of.Paused {
		paused = 1
	}
	o.ObserveInt64(i.parked, of.Parked, action)
	o.ObserveInt64(i.paused, paused, action)
	if of.Concurrency > 0 {
		o.ObserveInt64(i.concurrency, int64(of.Concurrency), action)
	}
}
