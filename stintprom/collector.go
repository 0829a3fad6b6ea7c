// Package stintprom tells Prometheus how many tasks a store holds.
//
//	registry.MustRegister(stintprom.NewCollector(store))
//
// The metrics are those of package stintotel, with names by Prometheus' rules:
//
//	stint_tasks{stint_task_action, stint_task_state} tasks in each state that has any
//	stint_oldest_ready_seconds{stint_task_action}    since the insert of the oldest ready task
//	stint_estimated{stint_task_state}                1 if the number is an estimate
//	stint_tries_total{stint_task_action}             tasks that were handed out
//	stint_retries_total{stint_task_action}           the same, without first tries
//	stint_pruning_behind_seconds                     how late finished tasks are pruned
package stintprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-tasks/stint"
)

const (
	actionLabel = "stint_task_action"
	stateLabel  = "stint_task_state"
)

// timeout is how long the database may take for an answer.
const timeout = 5 * time.Second

// NewCollector returns a collector that calls [stint.Store.Stats] whenever it is scraped. It is
// enough if one of the processes that share a database is scraped. If the database does not answer
// within five seconds, the scrape fails with the store's error.
func NewCollector(store *stint.Store) prometheus.Collector {
	return &collector{
		store: store,
		tasks: prometheus.NewDesc("stint_tasks", "Tasks in the store.",
			[]string{actionLabel, stateLabel}, nil),
		oldest: prometheus.NewDesc("stint_oldest_ready_seconds",
			"How long ago the oldest ready task was inserted.", []string{actionLabel}, nil),
		estimated: prometheus.NewDesc("stint_estimated",
			"1 where there are so many tasks that their number is an estimate.",
			[]string{stateLabel}, nil),
		tries: prometheus.NewDesc("stint_tries_total", "Tasks that were handed out.",
			[]string{actionLabel}, nil),
		retries: prometheus.NewDesc("stint_retries_total",
			"Tasks that were handed out not for their first try.", []string{actionLabel}, nil),
		behind: prometheus.NewDesc("stint_pruning_behind_seconds",
			"For how much longer than their retention finished tasks stay.", nil, nil),
	}
}

type collector struct {
	store                    *stint.Store
	tasks, oldest, estimated *prometheus.Desc
	tries, retries, behind   *prometheus.Desc
}

func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.tasks
	descs <- c.oldest
	descs <- c.estimated
	descs <- c.tries
	descs <- c.retries
	descs <- c.behind
}

func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	stats, err := c.store.Stats(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.tasks, err)
		return
	}
	tell := func(
		kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string,
	) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	for _, of := range stats.Actions {
		for state, tasks := range of.ByState() {
			if tasks > 0 {
				tell(prometheus.GaugeValue, c.tasks, float64(tasks), of.Action, string(state))
			}
		}
		if of.Ready > 0 {
			tell(prometheus.GaugeValue, c.oldest, of.OldestReady.Seconds(), of.Action)
		}
		if of.Tries > 0 {
			tell(prometheus.CounterValue, c.tries, float64(of.Tries), of.Action)
			tell(prometheus.CounterValue, c.retries, float64(of.Retries), of.Action)
		}
	}
	for _, state := range stats.Estimated {
		tell(prometheus.GaugeValue, c.estimated, 1, string(state))
	}
	if stats.PruningBehind > 0 {
		tell(prometheus.GaugeValue, c.behind, stats.PruningBehind.Seconds())
	}
}
