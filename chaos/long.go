//go:build unix

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint/chaos/record"
	"github.com/stint-tasks/stint/chaos/work"
)

var (
	//go:embed sql/sizes.sql
	sizesSQL string
	//go:embed sql/server.sql
	serverSQL string
)

const (
	// minute is how often the long run is looked at.
	minute = time.Minute
	// longRetention is how long its finished tasks stay.
	longRetention = 2 * time.Minute
)

// A minuteOf is a line of the long run.
type minuteOf struct {
	At   time.Time `json:"at"`
	Rate float64   `json:"rate"` // completed tasks a second
	// P50 and P99 are milliseconds from an insert to the answer of a wait.
	P50         float64          `json:"p50"`
	P99         float64          `json:"p99"`
	Bytes       map[string]int64 `json:"bytes"` // of tables with their indexes
	Dead        map[string]int64 `json:"dead"`  // rows
	WAL         int64            `json:"wal"`   // bytes since the line before
	Connections int              `json:"connections"`
	// Server and Processes are bytes of memory that is not shared.
	Server    int64            `json:"server"`
	Processes map[string]int64 `json:"processes"`
	Deaths    int              `json:"deaths"`
}

// A probe collects how long tasks took.
type probe struct {
	mutex sync.Mutex
	took  []float64
}

func (p *probe) said(line string) {
	var took float64
	if _, err := fmt.Sscanf(line, "took %g", &took); err != nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.took = append(p.took, took)
}

// take returns the percentiles since the last call.
func (p *probe) take() (p50, p99 float64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	slices.Sort(p.took)
	if n := len(p.took); n > 0 {
		p50, p99 = p.took[n/2], p.took[n*99/100]
	}
	p.took = nil
	return p50, p99
}

// runLong runs the workloads without a fault, and writes a line a minute to the standard output.
func (c *campaign) runLong(ctx context.Context) error {
	r := &round{campaign: c, result: record.Round{}, dir: filepath.Join(c.dir, "long")}
	const enter = 0o755
	if err := os.Mkdir(r.dir, enter); err != nil {
		return err
	}
	err := r.start(ctx)
	if err == nil {
		err = r.pace(ctx)
	}
	var wal int64
	for end := now().Add(c.long); err == nil && now().Before(end); {
		if !work.Pause(ctx, minute) {
			break
		}
		var line minuteOf
		if line, wal, err = r.look(ctx, wal); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(line)
		}
	}
	if err == nil && ctx.Err() == nil {
		err = r.drain(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	r.stop(ctx)
	if err == nil {
		err = r.check(ctx)
	}
	for _, v := range r.result.Violations {
		fmt.Fprintln(os.Stderr, v)
		err = errors.Join(err, errViolated)
	}
	return errors.Join(err, r.close(ctx))
}

// A sizeRow is a row of sizesSQL.
type sizeRow struct {
	Name        string
	Bytes, Dead int64
}

// A serverRow is the row of serverSQL.
type serverRow struct {
	WAL         int64
	Connections int
}

// look looks at everything.
func (r *round) look(ctx context.Context, before int64) (line minuteOf, wal int64, err error) {
	line = minuteOf{
		At: now().UTC(), Rate: r.meter.rate(minute),
		Bytes: map[string]int64{}, Dead: map[string]int64{}, Processes: map[string]int64{},
	}
	r.meter.forget()
	line.P50, line.P99 = r.probe.take()
	sizes, err := query[sizeRow](ctx, r.places()[0], sizesSQL, schema)
	if err != nil {
		return line, before, err
	}
	for _, s := range sizes {
		line.Bytes[s.Name], line.Dead[s.Name] = s.Bytes, s.Dead
	}
	server, err := query[serverRow](ctx, r.places()[0], serverSQL)
	if err != nil {
		return line, before, err
	}
	line.WAL, line.Connections = server[0].WAL-before, server[0].Connections
	if before == 0 {
		line.WAL = 0
	}
	for _, p := range r.processes {
		line.Processes[p.Name] = memory(p.PID())
		line.Deaths += p.Deaths()
	}
	pids, err := r.server.PIDs()
	line.Server = memory(pids...)
	return line, server[0].WAL, err
}

// memory is what processes have for themselves, so that what they share counts for none. Only Linux
// tells.
func memory(pids ...int) (bytes int64) {
	const kibibyte = 1 << 10
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			var n int64
			if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &n); err == nil {
				bytes += n * kibibyte
			}
		}
	}
	return bytes
}

// journal is where a process writes its calls.
func (r *round) journal(job work.Job) string {
	if r.long > 0 {
		return os.DevNull
	}
	return filepath.Join(r.dir, fmt.Sprintf("%s.%d.jsonl", job.Name, job.Number))
}
