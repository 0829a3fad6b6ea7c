package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
)

// childVariable makes this program the adapter, as the harness starts it.
const childVariable = "STINT_ADAPTER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A line is what the adapter tells, of any kind.
type line struct {
	Kind, System, Metric, T string
	SubjectKind             string   `json:"subject_kind"`
	Instance                *int     `json:"instance_id"`
	Value                   *float64 `json:"value"`
	Window                  *float64 `json:"window_s"`

	EventTables   []string `json:"event_tables"`
	Extensions    []string
	Version       string
	SchemaVersion string `json:"schema_version"`
	Database      string `json:"db_name"`
	StartedAt     string `json:"started_at"`
}

// A replica is a process that the harness has started.
type replica struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan line
}

func newDatabase(t *testing.T) (url string) {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Config{Settings: map[string]string{
		"fsync": "off", "max_connections": "100",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.URL("postgres")
}

// start starts a replica that tells samples each second.
func start(t *testing.T, url string, settings ...string) *replica {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "DATABASE_URL="+url, "SAMPLE_EVERY_S=1",
		"WORKER_COUNT=8", "MAX_CONNECTIONS=6")
	cmd.Env = append(cmd.Env, settings...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, cmd: cmd, in: in, lines: make(chan line, 1000)}
	go func() {
		defer close(r.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Errorf("line %q: %v", lines.Text(), err)
			}
			r.lines <- l
		}
	}()
	return r
}

// await reads lines until one is as wanted.
func (r *replica) await(what string, wanted func(l line) bool) line {
	r.t.Helper()
	for {
		select {
		case l, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("the adapter ended before %s", what)
			}
			if wanted(l) {
				return l
			}
		case <-time.After(time.Minute):
			r.t.Fatalf("no line with %s in a minute", what)
		}
	}
}

// awaitMetric reads lines until a metric has a value as wanted.
func (r *replica) awaitMetric(metric string, wanted func(value float64) bool) {
	r.t.Helper()
	r.await(metric, func(l line) bool { return l.Metric == metric && wanted(*l.Value) })
}

func above(least float64) func(float64) bool {
	return func(value float64) bool { return value > least }
}

func zero(value float64) bool { return value == 0 }

// stop stops a replica as the harness does, which waits for 5 s.
func (r *replica) stop() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	told := time.Now()
	for range r.lines { // Whatever it still tells is not wanted.
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("after SIGTERM: %v, want exit code 0", err)
	}
	if took := time.Since(told); took > 5*time.Second {
		r.t.Errorf("it took %v to stop, want at most 5 s", took)
	}
}

func TestAdapter_BeginsWithItsDescriptor(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	r := start(t, url, "BENCH_INSTANCE_ID=3", "PRODUCER_RATE=0")
	first := <-r.lines
	var static struct {
		System      string
		EventTables []string `json:"event_tables"`
		Extensions  []string
	}
	if err := json.Unmarshal(manifest, &static); err != nil {
		t.Fatal(err)
	}
	if first.Kind != "descriptor" || first.System != static.System || *first.Instance != 3 ||
		first.Version == "" || first.SchemaVersion == "" || first.Database != "postgres" {
		t.Errorf("first line = %+v, want the descriptor", first)
	}
	if !slices.Equal(first.EventTables, static.EventTables) || first.Extensions == nil {
		t.Errorf("descriptor = %+v, want what adapter.json has", first)
	}
	if _, err := time.Parse(time.RFC3339, first.StartedAt); err != nil {
		t.Error(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, table := range first.EventTables {
		if _, err := conn.Exec(t.Context(), "SELECT $1::text::regclass", table); err != nil {
			t.Errorf("event table %s: %v", table, err)
		}
	}
	r.stop()
}

func TestAdapter_TellsEachMetricAtEachTick(t *testing.T) {
	t.Parallel()
	r := start(t, newDatabase(t), "PRODUCER_RATE=100")
	r.await("a sample", func(l line) bool { return l.Kind == "adapter" })
	ticks := map[string]map[string]line{}
	for len(ticks) < 5 {
		l := <-r.lines
		if ticks[l.T] == nil {
			ticks[l.T] = map[string]line{}
		}
		ticks[l.T][l.Metric] = l
	}
	// Of the first and the last, some lines were not read.
	for _, at := range slices.Sorted(maps.Keys(ticks))[1:4] {
		parsed, err := time.Parse(time.RFC3339, at)
		if err != nil || parsed.Nanosecond() != 0 {
			t.Errorf("tick at %s, want a whole second", at)
		}
		for metric, window := range map[string]float64{
			"claim_p50_ms": 30, "claim_p95_ms": 30, "claim_p99_ms": 30, "end_to_end_p99_ms": 30,
			"enqueue_rate": 1, "completion_rate": 1, "queue_depth": 0, "producer_target_rate": 0,
		} {
			l, ok := ticks[at][metric]
			if !ok || l.Value == nil || l.Window == nil || *l.Window != window ||
				l.System != "stint" || l.SubjectKind != "adapter" || *l.Instance != 0 {
				t.Errorf("%s at %s = %+v", metric, at, l)
			}
		}
	}
	r.awaitMetric("enqueue_rate", above(50))
	r.awaitMetric("completion_rate", above(50))
	r.awaitMetric("end_to_end_p50_ms", above(1)) // the work takes as long
	r.stop()
}

func TestAdapter_LeavesWhatAllReplicasSeeToTheFirst(t *testing.T) {
	t.Parallel()
	r := start(t, newDatabase(t), "BENCH_INSTANCE_ID=1", "PRODUCER_RATE=10")
	r.await("a sample", func(l line) bool { return l.Kind == "adapter" })
	for range 30 {
		switch l := <-r.lines; l.Metric {
		case "queue_depth", "running_depth", "total_backlog", "producer_target_rate":
			t.Errorf("replica 1 told %s", l.Metric)
		}
	}
	r.stop()
}

func TestAdapter_InsertsWhatTheHarnessAsksFor(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	r := start(t, url, "PRODUCER_PACING=harness", "PRODUCER_RATE=500")
	r.await("a sample", func(l line) bool { return l.Kind == "adapter" })
	fmt.Fprint(r.in, "ENQUEUE 20\nnonsense\nENQUEUE 5\n")
	r.awaitMetric("completion_rate", above(0))
	r.awaitMetric("completion_rate", zero)
	if err := r.in.Close(); err != nil { // as when the harness cancels
		t.Fatal(err)
	}
	r.stop()
	if n := completed(t, url); n != 25 {
		t.Errorf("%d tasks were completed, want 25", n)
	}
}

func TestAdapter_FollowsTheFileOfTheRate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate")
	write := func(rate string) {
		if err := os.WriteFile(file, []byte(rate), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("150.5")
	r := start(t, newDatabase(t), "PRODUCER_RATE=1", "PRODUCER_RATE_CONTROL_FILE="+file)
	r.awaitMetric("producer_target_rate", func(value float64) bool { return value == 150.5 })
	r.awaitMetric("enqueue_rate", above(100))
	write("0")
	r.awaitMetric("enqueue_rate", zero)
	r.stop()
}

func TestAdapter_KeepsTheDepth(t *testing.T) {
	t.Parallel()
	r := start(t, newDatabase(t), "PRODUCER_MODE=depth-target", "TARGET_DEPTH=300",
		"JOB_WORK_MS=100", "PRODUCER_BATCH_MAX=64")
	r.awaitMetric("queue_depth", func(value float64) bool { return value >= 250 && value <= 310 })
	r.stop()
}

func TestAdapter_GoesOnAfterItsConnectionsBreak(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	r := start(t, url, "PRODUCER_RATE=100")
	r.awaitMetric("completion_rate", above(50))
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err != nil {
		t.Fatal(err)
	}
	r.awaitMetric("completion_rate", above(50))
	r.awaitMetric("completion_rate", above(50))
	r.stop()
}

func TestAdapter_TakesOverFromOneThatWasKilled(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	killed := start(t, url, "PRODUCER_PACING=harness", "PRODUCER_RATE=1", "JOB_WORK_MS=60000")
	killed.await("its descriptor", func(l line) bool { return l.Kind == "descriptor" })
	fmt.Fprint(killed.in, "ENQUEUE 20\n")
	killed.awaitMetric("running_depth", above(7))
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	r := start(t, url, "PRODUCER_RATE=0")
	r.awaitMetric("total_backlog", zero)
	r.stop()
	if n := completed(t, url); n != 20 {
		t.Errorf("%d tasks were completed, want 20", n)
	}
}

func completed(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	err = conn.QueryRow(t.Context(),
		"SELECT sum(hi - lo + 1)::integer FROM stint.finished").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReadSettings_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, value, want string }{
		{"WORKER_COUNT", "many", "WORKER_COUNT"},
		{"SAMPLE_EVERY_S", "0", "SAMPLE_EVERY_S"},
		{"SCENARIO", "worker_only", "SCENARIO"},
		{"PRODUCER_MODE", "burst", "PRODUCER_MODE"},
		{"DATABASE_URL", "", "DATABASE_URL"},
	} {
		_, err := readSettings(func(name string) string {
			switch name {
			case test.name:
				return test.value
			case "DATABASE_URL":
				return "postgres:///stint_bench"
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: %v, want an error that names it", test.name, test.value, err)
		}
	}
}

func TestCredit_MakesGoodForWhatTookLong(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_700_000_000, 0)
	due := credit{at: begun}
	total := 0
	for _, after := range []time.Duration{10, 20, 250, 251, 1000} { // milliseconds
		total += due.take(begun.Add(after*time.Millisecond), 800)
	}
	if total != 800 {
		t.Errorf("%d tasks in a second, want 800", total)
	}
}

func TestWindow_TellsThreeFiguresOfTheLast30Seconds(t *testing.T) {
	t.Parallel()
	var w window
	begun := time.Unix(1_700_000_000, 0)
	w.add(begun, time.Hour)
	for i := range 1000 {
		w.add(begun.Add(windowSeconds*time.Second), time.Duration(i+1)*777*time.Microsecond)
	}
	got := w.percentiles(begun.Add(windowSeconds*time.Second), 0.50, 0.95, 0.99, 1)
	for i, want := range []float64{388.5, 738.15, 769.23, 777} {
		if off := got[i]/want - 1; off < -0.001 || off > 0.001 {
			t.Errorf("percentile %d = %g ms, want %g", i, got[i], want)
		}
	}
	if got := w.percentiles(begun.Add(2*windowSeconds*time.Second), 0.5); got[0] != 0 {
		t.Errorf("median without tasks = %g, want 0", got[0])
	}
}

func TestBucketOf_IsWithinATenthOfAPercent(t *testing.T) {
	t.Parallel()
	for us := int64(1); us < most; us = us*5/4 + 1 {
		got := 1000 * latencyOf(bucketOf(time.Duration(us)*time.Microsecond))
		if off := (got - float64(us)) / float64(us); us > 1000 && (off < -0.001 || off > 0.001) {
			t.Fatalf("%d us became %g", us, got)
		}
	}
	for _, latency := range []time.Duration{-time.Second, 0, 1000 * time.Hour} {
		if at := bucketOf(latency); at < 0 || at >= buckets {
			t.Errorf("bucketOf(%v) = %d", latency, at)
		}
	}
}

func TestInsertedAt_RefusesOtherBodies(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 123)
	if got, err := insertedAt(newBody(at, []byte("xx"))); err != nil || !got.Equal(at) {
		t.Errorf("insertedAt = %v, %v, want %v", got, err, at)
	}
	if _, err := insertedAt([]byte("{}")); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("insertedAt of another body = %v, want an error", err)
	}
}
