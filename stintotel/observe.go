// Package stintotel tells OpenTelemetry how many tasks a store holds. What workers do, package
// worker tells itself.
//
//	stint.tasks{stint.task.action, stint.task.state} tasks in each state that some are in
//	stint.oldest_ready{stint.task.action}            seconds since the insert of the oldest
//	stint.estimated{stint.task.state}                1 where the number is an estimate
package stintotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stint-tasks/stint"
)

const scope = "github.com/stint-tasks/stint"

const (
	actionKey = attribute.Key("stint.task.action")
	stateKey  = attribute.Key("stint.task.state")
)

// Observe has the store asked for [stint.Store.Stats] whenever the provider collects. One process
// of those that share a database is enough to tell. [metric.Registration.Unregister] ends it.
func Observe(store *stint.Store, provider metric.MeterProvider) (metric.Registration, error) {
	registration, err := observe(store, provider.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("observe store: %w", err)
	}
	return registration, nil
}

func observe(store *stint.Store, meter metric.Meter) (metric.Registration, error) {
	tasks, err := meter.Int64ObservableGauge("stint.tasks",
		metric.WithDescription("Tasks in the store."), metric.WithUnit("{task}"))
	if err != nil {
		return nil, err
	}
	oldest, err := meter.Float64ObservableGauge("stint.oldest_ready",
		metric.WithDescription("How long ago the oldest ready task was inserted."),
		metric.WithUnit("s"))
	if err != nil {
		return nil, err
	}
	estimated, err := meter.Int64ObservableGauge("stint.estimated", metric.WithDescription(
		"1 where there are so many tasks that their number is an estimate."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		stats, err := store.Stats(ctx)
		if err != nil {
			return err
		}
		for _, of := range stats.Actions {
			action := actionKey.String(of.Action)
			for state, n := range of.ByState() {
				if n > 0 {
					o.ObserveInt64(tasks, n,
						metric.WithAttributes(action, stateKey.String(string(state))))
				}
			}
			if of.Ready > 0 {
				o.ObserveFloat64(oldest, of.OldestReady.Seconds(), metric.WithAttributes(action))
			}
		}
		for _, state := range stats.Estimated {
			o.ObserveInt64(estimated, 1, metric.WithAttributes(stateKey.String(string(state))))
		}
		return nil
	}, tasks, oldest, estimated)
}
