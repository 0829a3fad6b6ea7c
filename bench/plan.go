package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A plan is what to measure.
type plan struct {
	quick     bool
	rounds    int
	workloads string        // IDs, separated by commas; empty: all
	only      string        // names of contenders, separated by commas; empty: all
	snapshot  time.Duration // how long W6 lasts
	scale     float64       // all numbers of tasks are multiplied by it
}

// leastTasks is how many tasks a measurement has at least, however small the scale.
const leastTasks = 100

// A measured is an entry with the reports of its measurements.
type measured struct {
	workload  workload
	contender contender
	entry     entry
	reports   []report
}

// measurements are the entries that the plan picks, in the order of the table.
func (p plan) measurements() []*measured {
	var all []*measured
	for _, w := range workloads() {
		if !w.picked(p.workloads) || p.quick && w.quick == 0 {
			continue
		}
		for _, c := range contenders() {
			if p.only != "" && !slices.Contains(strings.Split(p.only, ","), c.name) {
				continue
			}
			for _, e := range c.entries {
				if e.workload == w.id && !(p.quick && e.notQuick) {
					all = append(all, &measured{workload: w, contender: c, entry: e})
				}
			}
		}
	}
	return all
}

// job is what the plan has a child do for an entry.
func (p plan) job(m *measured) job {
	w := m.workload
	tasks, backlog := w.tasks, w.backlog
	if p.quick {
		tasks, backlog = w.quick, w.quick
	}
	if m.entry.atMost > 0 {
		tasks = min(tasks, m.entry.atMost)
	}
	if w.backlog == w.tasks {
		backlog = tasks
	}
	scaled := func(n int) int {
		if n == 0 {
			return 0
		}
		return max(leastTasks, int(float64(n)*p.scale))
	}
	lasts := w.lasts
	if w.id == "W6" {
		lasts = p.snapshot
	}
	if p.scale < 1 {
		lasts = max(time.Second, time.Duration(float64(lasts)*p.scale))
	}
	return job{
		Contender: m.contender.name, Workload: w.id, Variant: m.entry.variant,
		Tasks: scaled(tasks), Backlog: scaled(backlog), BodyBytes: w.bodyBytes,
		Callers: w.callers, Lasts: lasts,
	}
}

// carryOut measures everything, round by round, so that what changes on the machine meanwhile
// changes for every contender.
func (p plan) carryOut(ctx context.Context, s *server, progress io.Writer) ([]*measured, error) {
	all := p.measurements()
	for round := range p.rounds {
		for _, m := range all {
			if m.workload.once && round > 0 {
				continue
			}
			times := 1
			if m.workload.again {
				times = p.rounds
			}
			begun := now()
			if err := p.measure(ctx, s, m, times); err != nil {
				return nil, err
			}
			last, f := m.reports[len(m.reports)-1], m.workload.figuresOrRate()[0]
			fmt.Fprintf(progress, "%d/%d  %-10s  %-24s  %10.4g %-7s  (%.1f s in all)\n",
				round+1, p.rounds, m.workload.id, m.name(), last.value(f), f.unit,
				time.Since(begun).Seconds())
		}
	}
	return all, nil
}

// name is what the table calls the entry.
func (m *measured) name() string {
	if m.entry.variant == "" {
		return m.contender.title
	}
	return m.contender.title + ", " + m.entry.variant
}

// measure measures an entry so many times on one backlog in a new database.
func (p plan) measure(ctx context.Context, s *server, m *measured, times int) error {
	url, err := s.newDatabase(ctx)
	if err != nil {
		return err
	}
	j := p.job(m)
	j.URL, j.Fill = url, true
	if _, err := delegate(ctx, j); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	j.Fill = false
	for range times {
		found, err := delegate(ctx, j)
		if err != nil {
			return err
		}
		m.reports = append(m.reports, found)
	}
	return nil
}
