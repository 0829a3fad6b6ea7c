package stintprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-tasks/stint"
)

// NewMinutesCollector returns a collector that calls [stint.Store.Minutes] whenever it is scraped,
// some 20 ms, and tells of the last minute that was noted of all actions together. It has no series
// while none is: where no store maintains, or by [stint.Options.WithoutMinutes]. It is enough to
// scrape one of the processes that share a database. If the database does not answer within five
// seconds, the scrape fails with the store's error.
func NewMinutesCollector(store *stint.Store) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("stint_minute_"+name, help, nil, nil)
	}
	return &minutesCollector{
		store:     store,
		end:       desc("end_timestamp_seconds", "When the last minute that was noted ended."),
		completed: desc("completed_tasks", "Tasks that completed in the last minute."),
		failed: desc("failed_tasks",
			"Tasks that failed for good in the last minute."),
		median: desc("median_seconds", "How long half of the tasks that completed in the last "+
			"minute took at most."),
		p95: desc("p95_seconds", "How long 95 % of the tasks that completed in the last minute "+
			"took at most."),
		waitMedian: desc("wait_median_seconds", "How long half of them had been ready at most "+
			"when they were fetched."),
		waitP95: desc("wait_p95_seconds", "How long 95 % of them had been ready at most when "+
			"they were fetched."),
		runMedian: desc("run_median_seconds", "How long half of them took at most from the "+
			"fetch to their end."),
		runP95: desc("run_p95_seconds", "How long 95 % of them took at most from the fetch to "+
			"their end."),
	}
}

type minutesCollector struct {
	store                                  *stint.Store
	end, completed, failed, median, p95    *prometheus.Desc
	waitMedian, waitP95, runMedian, runP95 *prometheus.Desc
}

func (c *minutesCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.end, c.completed, c.failed, c.median, c.p95, c.waitMedian, c.waitP95, c.runMedian,
		c.runP95,
	} {
		descs <- desc
	}
}

func (c *minutesCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	minutes, err := c.store.Minutes(ctx, "")
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.end, err)
		return
	}
	if len(minutes) == 0 {
		return
	}
	last := &minutes[len(minutes)-1]
	tell := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	tell(c.end, float64(last.Until.Unix()))
	tell(c.completed, float64(last.Completed))
	tell(c.failed, float64(last.Failed))
	if last.Completed > 0 {
		tell(c.median, last.Median.Seconds())
		tell(c.p95, last.P95.Seconds())
	}
	if last.RunP95 > 0 { // it is known
		tell(c.waitMedian, last.WaitMedian.Seconds())
		tell(c.waitP95, last.WaitP95.Seconds())
		tell(c.runMedian, last.RunMedian.Seconds())
		tell(c.runP95, last.RunP95.Seconds())
	}
}
