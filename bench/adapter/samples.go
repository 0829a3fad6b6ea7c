package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
)

// manifest is what the harness reads before it starts the adapter. The descriptor repeats it.
//
//go:embed adapter.json
var manifest []byte

// A tally is what a replica has seen.
type tally struct {
	in, begun, out atomic.Int64
	rate           atomic.Uint64 // the bits of a float64

	mutex        sync.Mutex
	claim, whole window // under mutex
}

func (t *tally) inserted(n int)      { t.in.Add(int64(n)) }
func (t *tally) target(rate float64) { t.rate.Store(math.Float64bits(rate)) }

// waiting is how many tasks this replica has inserted that it has not begun to perform.
func (t *tally) waiting() int { return int(t.in.Load() - t.begun.Load()) }

func (t *tally) started(after time.Duration) {
	t.begun.Add(1)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.claim.add(now(), after)
}

func (t *tally) ended(after time.Duration) {
	t.out.Add(1)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.whole.add(now(), after)
}

// A teller writes lines.
type teller struct {
	settings
	out io.Writer
}

func (t *teller) write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = t.out.Write(append(text, '\n'))
	return err
}

// descriptor tells what this is: the manifest and what only the process knows.
func (t *teller) descriptor(database string) error {
	line := map[string]any{}
	if err := json.Unmarshal(manifest, &line); err != nil {
		return err
	}
	line["kind"] = "descriptor"
	line["instance_id"] = t.instance
	line["version"] = version()
	line["schema_version"] = strconv.Itoa(int(migrations.Version()))
	line["db_name"] = database
	line["started_at"] = timestamp(now())
	return t.write(line)
}

// version is the revision that this was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "devel"
}

func timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// A sample is a line of a metric.
type sample struct {
	T           string  `json:"t"`
	System      string  `json:"system"`
	Instance    int     `json:"instance_id"`
	Kind        string  `json:"kind"`
	SubjectKind string  `json:"subject_kind"`
	Subject     string  `json:"subject"`
	Metric      string  `json:"metric"`
	Value       float64 `json:"value"`
	Window      float64 `json:"window_s"`
}

// run tells samples at whole multiples of the cadence on the clock of the wall, until ctx ends.
func (t *teller) run(
	ctx context.Context, store *stint.Store, seen *tally, logger *slog.Logger,
) error {
	last, in, out := now(), int64(0), int64(0)
	for {
		at := now().Truncate(t.every).Add(t.every)
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return nil
		}
		here, inserted, ended := now(), seen.in.Load(), seen.out.Load()
		seconds := here.Sub(last).Seconds()
		lines := []sample{
			{Metric: "enqueue_rate", Value: float64(inserted-in) / seconds},
			{Metric: "completion_rate", Value: float64(ended-out) / seconds},
		}
		for i := range lines {
			lines[i].Window = t.every.Seconds()
		}
		last, in, out = here, inserted, ended
		lines = append(lines, seen.latencies(here)...)
		if t.instance == 0 { // what is true of all replicas, one tells
			lines = append(lines, sample{
				Metric: "producer_target_rate", Value: math.Float64frombits(seen.rate.Load()),
			})
			lines = append(lines, t.depths(ctx, store, logger)...)
		}
		for _, line := range lines {
			line.T, line.System, line.Instance = timestamp(at), "stint", t.instance
			line.Kind, line.SubjectKind = "adapter", "adapter"
			if err := t.write(line); err != nil {
				return err
			}
		}
	}
}

// latencies are from the insert to the handler's start and to its end, the former under both of
// the names that the harness has for it.
func (t *tally) latencies(at time.Time) []sample {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	shares := []float64{0.50, 0.95, 0.99}
	var lines []sample
	for _, of := range []struct {
		name string
		*window
	}{{"claim", &t.claim}, {"subscriber", &t.claim}, {"end_to_end", &t.whole}} {
		for i, value := range of.percentiles(at, shares...) {
			lines = append(lines, sample{
				Metric: of.name + "_p" + strconv.Itoa(int(100*shares[i])) + "_ms",
				Value:  value, Window: windowSeconds,
			})
		}
	}
	return lines
}

// depths are how many tasks there are. Where the database cannot say, there are none to tell.
func (t *teller) depths(ctx context.Context, store *stint.Store, logger *slog.Logger) []sample {
	ctx, cancel := context.WithTimeout(ctx, t.every)
	defer cancel()
	stats, err := store.Stats(ctx)
	if err != nil {
		logger.Warn("no depths", "error", err)
		return nil
	}
	var ready, running, scheduled int64
	for _, action := range stats.Actions {
		ready += action.Ready
		running += action.InProgress
		scheduled += action.Scheduled
	}
	return []sample{
		{Metric: "queue_depth", Value: float64(ready)},
		{Metric: "running_depth", Value: float64(running)},
		{Metric: "scheduled_depth", Value: float64(scheduled)},
		{Metric: "total_backlog", Value: float64(ready + running + scheduled)},
	}
}
