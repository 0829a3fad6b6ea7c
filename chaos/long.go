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

// runLong runs the workloads without a fault, follows what the servers commit, and writes a line
// about the run and one a minute to the standard output.
func (c *campaign) runLong(ctx context.Context) error {
	c.number++
	r := &round{campaign: c, dir: filepath.Join(c.dir, "round-1-long")}
	r.result.Seed = c.seedOf()
	const enter = 0o755
	if err := os.Mkdir(r.dir, enter); err != nil {
		return err
	}
	err := r.openHistories(ctx)
	if err == nil {
		err = r.start(ctx)
	}
	if err == nil {
		err = r.pace(ctx)
	}
	out := json.NewEncoder(os.Stdout)
	if err == nil {
		err = out.Encode(record.Long{
			Seed: r.result.Seed, Commit: c.commit, Date: now().UTC(), Machine: machine(),
			Load: c.load, Full: c.full,
		})
	}
	if err == nil {
		err = r.watch(ctx, out)
	}
	if err == nil {
		err = r.drain(ctx)
	}
	r.stop(context.WithoutCancel(ctx))
	if err == nil {
		err = errors.Join(r.check(ctx), r.readHistories(ctx))
	}
	if err == nil {
		err = out.Encode(record.Minute{
			At: now().UTC(), Final: true, Commits: r.result.Commits, Moves: r.result.Moves,
			Found: len(r.result.Violations),
		})
	}
	for _, v := range r.result.Violations {
		fmt.Fprintln(os.Stderr, v)
		err = errors.Join(err, errViolated)
	}
	err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
	if err == nil && !c.keep {
		return os.RemoveAll(r.dir)
	}
	fmt.Fprintln(os.Stderr, "see", c.dir)
	return err
}

// watch looks at everything once a minute, and follows the histories in between.
func (r *round) watch(ctx context.Context, out *json.Encoder) error {
	wal := int64(0)
	for end := now().Add(r.long); now().Before(end); {
		if err := r.follow(ctx, minute); err != nil {
			return err
		}
		line, after, err := r.look(ctx, wal)
		if err != nil {
			return err
		}
		wal = after
		for _, h := range r.histories {
			line.Commits += h.Counts().Commits
			line.Moves += h.Counts().Moves
			line.Found += len(h.Violations())
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// follow follows the histories for a time, so often that no server takes their reader for gone.
func (r *round) follow(ctx context.Context, lasts time.Duration) error {
	const pause = time.Second
	for end := now().Add(lasts); now().Before(end); {
		for _, h := range r.histories {
			if err := h.Read(ctx); err != nil {
				return fmt.Errorf("the history of %s: %w", h.name, err)
			}
		}
		if !work.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
	return nil
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
func (r *round) look(ctx context.Context, before int64) (
	line record.Minute, wal int64, err error,
) {
	line = record.Minute{
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
