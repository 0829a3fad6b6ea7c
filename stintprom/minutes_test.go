package stintprom_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/stintprom"
)

// The last minute that was noted is told, as it was, and nothing while none is.
func TestMinutesCollector_TellsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	collector := stintprom.NewMinutesCollector(newStore(t, pool))
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("%d series, and nothing is noted", n)
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO stint.minutes (minute, since, until, all_tries,
			all_retries, completed, failed, ready, median, p95, wait_median, wait_p95, run_median,
			run_p95, estimated, action)
		SELECT date_trunc('minute', now(), 'UTC') - ago, now() - ago - interval '1 min',
		       date_trunc('minute', now(), 'UTC') - ago, 1, 0, n, 10 * n, 0,
		       n * interval '1.5 s', n * interval '4 s', n * interval '0 s', n * interval '1 s',
		       n * interval '1.25 s', n * interval '3 s', false, action
		FROM generate_series(0, 1) AS n, make_interval(mins => 2 - n) AS ago,
		     (VALUES (''), ('mail')) AS named (action)`)
	if err != nil {
		t.Fatal(err)
	}
	err = testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP stint_minute_completed_tasks Tasks that completed in the last minute.
# TYPE stint_minute_completed_tasks gauge
stint_minute_completed_tasks 1
# HELP stint_minute_failed_tasks Tasks that failed for good in the last minute.
# TYPE stint_minute_failed_tasks gauge
stint_minute_failed_tasks 10
# HELP stint_minute_median_seconds How long half of the tasks that completed in the last minute `+
		`took at most.
# TYPE stint_minute_median_seconds gauge
stint_minute_median_seconds 1.5
# HELP stint_minute_p95_seconds How long 95 % of the tasks that completed in the last minute `+
		`took at most.
# TYPE stint_minute_p95_seconds gauge
stint_minute_p95_seconds 4
# HELP stint_minute_run_median_seconds How long half of them took at most from the fetch `+
		`to their end.
# TYPE stint_minute_run_median_seconds gauge
stint_minute_run_median_seconds 1.25
# HELP stint_minute_run_p95_seconds How long 95 % of them took at most from the fetch to their end.
# TYPE stint_minute_run_p95_seconds gauge
stint_minute_run_p95_seconds 3
# HELP stint_minute_wait_median_seconds How long half of them had been ready at most when they `+
		`were fetched.
# TYPE stint_minute_wait_median_seconds gauge
stint_minute_wait_median_seconds 0
# HELP stint_minute_wait_p95_seconds How long 95 % of them had been ready at most when they `+
		`were fetched.
# TYPE stint_minute_wait_p95_seconds gauge
stint_minute_wait_p95_seconds 1
`), "stint_minute_completed_tasks", "stint_minute_failed_tasks", "stint_minute_median_seconds",
		"stint_minute_p95_seconds", "stint_minute_run_median_seconds",
		"stint_minute_run_p95_seconds", "stint_minute_wait_median_seconds",
		"stint_minute_wait_p95_seconds")
	if err != nil {
		t.Error(err)
	}
	wantLastMinute(t, pool, collector)
}

// wantLastMinute checks when the minute ended, the names, and what is told where there is less.
func wantLastMinute(t *testing.T, pool *pgxpool.Pool, collector prometheus.Collector) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	var end float64
	err := pool.QueryRow(t.Context(), `SELECT date_part('epoch', max(until)) FROM stint.minutes`).
		Scan(&end)
	got := seriesOf(t, registry)["stint_minute_end_timestamp_seconds"]
	if err != nil || got != end {
		t.Errorf("the minute ended at %v, want %v (%v)", got, end, err)
	}
	if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
	// Where none of the tasks has completed, nothing says how long they took.
	_, err = pool.Exec(t.Context(), "DELETE FROM stint.minutes WHERE completed > 0")
	if n := testutil.CollectAndCount(collector); err != nil || n != 3 {
		t.Errorf("%d series of a minute in which nothing has completed, want 3 (%v)", n, err)
	}
	pool.Close()
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "minutes") {
		t.Errorf("without a database, Gather = %v", err)
	}
}
