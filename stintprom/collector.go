// Package stintprom exports to Prometheus how many tasks a store holds and how performances end.
//
//	metrics := stintprom.NewWorkerMetrics()
//	registry.MustRegister(stintprom.NewCollector(store), metrics)
//	w, err := worker.New(store, worker.Options{Metrics: metrics})
//
// [NewCollector] asks the store. It is enough to scrape one of the processes that share a database;
// if several are scraped, they report the same, so take the maximum:
//
//	stint_tasks{action, state}          tasks in each state
//	stint_oldest_ready_seconds{action}  since the oldest ready task became ready, 0 if none is
//	stint_estimated{state}              1 if the number of tasks is an estimate, else 0
//	stint_tries_total{action}           tasks that were fetched
//	stint_retries_total{action}         the same, without first tries
//	stint_lost_tasks{action}            aborted tasks that lost several owners in a row
//	stint_pruning_behind_seconds        how late finished tasks are pruned, 0 if none ever was
//	stint_parked_tasks{action}          ready tasks that wait for capacity below a limit of their
//	                                    key, for the end of its pause, or for its turn
//	stint_concurrency_limit{action}     how many tasks may be in progress at once
//	stint_paused{action}                1 if the action is paused, else 0
//
// Actions without limits and pauses have no series of the last three, and those without a limit of
// the tasks in progress no stint_concurrency_limit.
//
// An action has all seven states, zeros included, as long as [stint.Stats] lists it. So graphs have
// no gaps, and the first aborted task shows as an increase. The age of the oldest ready task is 0
// if none is ready; stint_tasks distinguishes this from a task that was inserted just now.
//
// [NewMinutesCollector] asks the store for the last minute that was noted, of all actions together:
//
//	stint_minute_completed_tasks        tasks that completed
//	stint_minute_failed_tasks           tasks that failed for good
//	stint_minute_median_seconds         how long half of those that completed took, from their
//	                                    insertion to their end, and no longer
//	stint_minute_p95_seconds            the same of 95 % of them
//	stint_minute_end_timestamp_seconds  when the minute ended
//
// [NewWorkerMetrics] counts in the process, so every worker should be scraped; the sum is the
// total:
//
//	stint_worker_performances_total{action, outcome}  performances that have ended
//	stint_worker_duration_seconds{action}             how long they took until the return
//	stint_worker_running{action}                      performances under way
//
// An action has all outcomes from its first performance on. These are completed, retried (given
// back for another try), snoozed (given back until later, without a try), aborted (also when no
// tries are left), stopped (given back because the worker stops), lost (nothing was returned) and
// overdue (given back because the handler had not returned within the grace of its time-out).
// Failed performances are retried, aborted or overdue. The duration is a native histogram where the
// server asks for one, else one with buckets from 1 ms to 10 min.
//
// [NewServiceMetrics] counts in the process as well, for a service:
//
//	stint_service_calls_total{procedure, code}  calls that have ended
//	stint_service_duration_seconds{procedure}   how long they took, with the time that they waited
//	stint_service_running{procedure}            calls and streams under way
//
// A procedure is a path, /stint.v1.TaskService/InsertTasks, or "other" for all paths that are none.
// It has the codes ok, internal and unavailable from its first call on, and others when they come.
//
// The names are those of packages stintotel and worker, by Prometheus' rules; the labels are
// shorter. docs/operations/alerts.yml and docs/operations/grafana.json in the repository use them.
package stintprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-tasks/stint"
)

const (
	actionLabel  = "action"
	stateLabel   = "state"
	outcomeLabel = "outcome"
)

// triesMax is for how many actions Stats tells the tries. Of more actions it tells zero for some
// that were fetched before, and Prometheus would take that for a counter that began anew.
const triesMax = 1000

// timeout is how long the database may take for an answer.
const timeout = 5 * time.Second

// NewCollector returns a collector that calls [stint.Store.Stats] whenever it is scraped. It is
// enough to scrape one of the processes that share a database. If the database does not answer
// within five seconds, the scrape fails with the store's error.
func NewCollector(store *stint.Store) prometheus.Collector {
	return &collector{
		store: store,
		tasks: prometheus.NewDesc("stint_tasks", "Tasks in the store.",
			[]string{actionLabel, stateLabel}, nil),
		oldest: prometheus.NewDesc("stint_oldest_ready_seconds",
			"How long the oldest ready task has been ready, 0 if none is.",
			[]string{actionLabel}, nil),
		estimated: prometheus.NewDesc("stint_estimated",
			"1 where there are so many tasks that their number is an estimate, else 0.",
			[]string{stateLabel}, nil),
		tries: prometheus.NewDesc("stint_tries_total", "Tasks that were fetched.",
			[]string{actionLabel}, nil),
		retries: prometheus.NewDesc("stint_retries_total",
			"Tasks that were fetched not for their first try.", []string{actionLabel}, nil),
		lost: prometheus.NewDesc("stint_lost_tasks",
			"Aborted tasks that lost several owners in a row.", []string{actionLabel}, nil),
		behind: prometheus.NewDesc("stint_pruning_behind_seconds",
			"For how much longer than their retention finished tasks stay.", nil, nil),
		parked: prometheus.NewDesc("stint_parked_tasks",
			"Ready tasks that wait for room, a resume or the turn of their key.",
			[]string{actionLabel}, nil),
		concurrency: prometheus.NewDesc("stint_concurrency_limit",
			"How many tasks may be in progress at once.", []string{actionLabel}, nil),
		paused: prometheus.NewDesc("stint_paused", "1 if the action is paused, else 0.",
			[]string{actionLabel}, nil),
	}
}

type collector struct {
	store                       *stint.Store
	tasks, oldest, estimated    *prometheus.Desc
	tries, retries, lost        *prometheus.Desc
	behind                      *prometheus.Desc
	parked, concurrency, paused *prometheus.Desc
}

func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.tasks
	descs <- c.oldest
	descs <- c.estimated
	descs <- c.tries
	descs <- c.retries
	descs <- c.lost
	descs <- c.behind
	descs <- c.parked
	descs <- c.concurrency
	descs <- c.paused
}

func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	stats, err := c.store.Stats(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.tasks, err)
		return
	}
	c.tell(stats, func(
		kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string,
	) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	})
}

func (c *collector) tell(
	stats stint.Stats,
	tell func(kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string),
) {
	estimated := map[stint.State]float64{}
	for _, state := range stats.Estimated {
		estimated[state] = 1
	}
	for state := range (stint.ActionStats{}).ByState() {
		tell(prometheus.GaugeValue, c.estimated, estimated[state], string(state))
	}
	for _, of := range stats.Actions {
		for state, tasks := range of.ByState() {
			tell(prometheus.GaugeValue, c.tasks, float64(tasks), of.Action, string(state))
		}
		tell(prometheus.GaugeValue, c.oldest, of.OldestReady.Seconds(), of.Action)
		tell(prometheus.GaugeValue, c.lost, float64(of.Lost), of.Action)
		if of.Tries > 0 || len(stats.Actions) <= triesMax {
			tell(prometheus.CounterValue, c.tries, float64(of.Tries), of.Action)
			tell(prometheus.CounterValue, c.retries, float64(of.Retries), of.Action)
		}
		c.tellLimits(of, tell)
	}
	tell(prometheus.GaugeValue, c.behind, stats.PruningBehind.Seconds())
}

// tellLimits tells of the limits of an action that has some, or is paused.
func (c *collector) tellLimits(
	of stint.ActionStats,
	tell func(kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string),
) {
	if !of.Limited && !of.Paused && of.Parked == 0 {
		return
	}
	paused := 0.0
	if of.Paused {
		paused = 1
	}
	tell(prometheus.GaugeValue, c.parked, float64(of.Parked), of.Action)
	tell(prometheus.GaugeValue, c.paused, paused, of.Action)
	if of.Concurrency > 0 {
		tell(prometheus.GaugeValue, c.concurrency, float64(of.Concurrency), of.Action)
	}
}
