package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A plan is what to measure.
type plan struct {
	Quick     bool          `json:"quick"`
	Rounds    int           `json:"rounds"`
	Workloads string        `json:"workloads"`  // IDs, separated by commas; empty: all
	Only      string        `json:"contenders"` // names, separated by commas; empty: all
	Snapshot  time.Duration `json:"w6_nanoseconds"`
	Mixed     time.Duration `json:"w11_nanoseconds"`
	Finished  int           `json:"w14_finished"`
	Slots     time.Duration `json:"w18_nanoseconds"`
	Disturbed time.Duration `json:"w19_nanoseconds"`
	Pinned    time.Duration `json:"w20_nanoseconds"`
	Scale     float64       `json:"scale"` // all numbers of tasks are multiplied by it

	settings map[string]string // of the server, instead of the usual ones
}

// leastTasks is how many tasks a measurement has at least, however small the scale.
const leastTasks = 50

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
		if !w.picked(p.Workloads) || p.Quick && w.quick == 0 {
			continue
		}
		for _, c := range contenders() {
			if p.Only != "" && !slices.Contains(strings.Split(p.Only, ","), c.name) {
				continue
			}
			for _, e := range c.entries {
				if e.workload == w.id && (!p.Quick || !e.notQuick) {
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
	if p.Quick {
		tasks, backlog = w.quick, w.quick
	}
	if w.backlog == w.tasks {
		backlog = tasks
	}
	scaled := func(n int) int {
		if n == 0 {
			return 0
		}
		return max(leastTasks, int(float64(n)*p.Scale))
	}
	lasts := w.lasts
	switch {
	case w.id == "W6":
		lasts = p.Snapshot
	case w.id == "W11":
		lasts = p.Mixed
	case w.picked("W18"):
		lasts = p.Slots
	case w.picked("W19"):
		lasts = p.Disturbed
	case w.picked("W20"):
		lasts = p.Pinned
	case w.picked(finishedWorkload), w.picked(resultsWorkload), w.picked(checkWorkload):
		backlog = max(backlog, p.Finished)
	}
	if p.Scale < 1 {
		lasts = max(time.Second, time.Duration(float64(lasts)*p.Scale))
	}
	return job{
		Contender: m.contender.name, Workload: w.id, Variant: m.entry.variant,
		Tasks: scaled(tasks), Backlog: scaled(backlog), BodyBytes: w.bodyBytes,
		Callers: w.callers, PerSecond: w.perSecond, Lasts: lasts,
	}
}

// carryOut measures everything, round by round, so that what changes on the machine meanwhile
// changes for every contender. A measurement that fails does not keep the others from being made.
func (p plan) carryOut(ctx context.Context, s *server, progress io.Writer) ([]*measured, error) {
	var failed error
	all := p.measurements()
	for round := range p.Rounds {
		for _, m := range all {
			if m.workload.once && round > 0 {
				continue
			}
			if ctx.Err() != nil {
				return all, errors.Join(failed, ctx.Err())
			}
			begun := now()
			told := "failed"
			err := p.measure(ctx, s, m)
			switch {
			case errors.Is(err, errNoExtension):
				told = err.Error() + " " + m.contender.extension
			case err != nil:
				failed = errors.Join(failed, err)
			default:
				f := m.workload.figuresOrRate()[0]
				told = quantity(m.reports[len(m.reports)-1].value(f), f.unit)
			}
			fmt.Fprintf(progress, "round %d/%d  %-10s  %-28s  %18s  after %.1f s\n", round+1,
				p.Rounds, m.workload.id, m.name(), told, time.Since(begun).Seconds())
		}
	}
	return all, failed
}

// name is what the table calls the entry.
func (m *measured) name() string {
	if m.entry.variant == "" {
		return m.contender.title
	}
	return m.contender.title + ", " + m.entry.variant
}

// measure measures an entry in a new database: once, or as often as there are rounds if what it
// takes from its backlog makes no difference to it.
func (p plan) measure(ctx context.Context, s *server, m *measured) (err error) {
	times := 1
	if m.workload.again {
		times = p.Rounds
	}
	url, err := s.newDatabase(ctx)
	if err != nil {
		return err
	}
	if err := s.needs(ctx, m.contender.extension); err != nil {
		return err
	}
	j := p.job(m)
	j.URL, j.Settings, j.Fill = url, s.settings, true
	second, done, err := s.second(ctx, m.entry.second, p.settings)
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	if err != nil {
		return err
	}
	j.Second = second
	filled, err := delegate(ctx, j)
	if err != nil {
		return err
	}
	j.Fill = false
	for range times {
		found, err := delegate(ctx, j)
		if err != nil {
			return err
		}
		for name, value := range filled.Figures {
			found.set(name, value)
		}
		m.reports = append(m.reports, found)
	}
	return nil
}
