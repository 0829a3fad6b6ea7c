package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Every contender performs each of its workloads with a few tasks: some of them in each run.
func TestPerform_MeasuresEveryEntry(t *testing.T) {
	t.Parallel()
	var all []string
	for _, w := range workloads() {
		all = append(all, w.id)
	}
	some := strings.Join(testrun.Some(all), ",")
	for _, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := plan{
				Rounds: 1, Only: c.name, Workloads: some, Snapshot: time.Second, Scale: 1e-6,
				settings: quickServer(),
			}
			found, err := p.perform(t.Context(), io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if c.extension != "" && len(found.Results) == 0 && len(p.measurements()) > 0 {
				t.Skip("the server has no extension " + c.extension + ": README.md has its package")
			}
			for _, m := range p.measurements() {
				for _, f := range m.workload.figuresOrRate() {
					row, ok := found.Results.of(c.name, m.workload.id, m.entry.variant, f.name)
					// What lasts for a second may be idle all the while on a busy machine.
					idle := !m.workload.once && (row.Median <= 0 || row.Tasks == 0)
					if !ok || idle || row.PeakMiB == nil {
						t.Errorf("%s of %s = %+v, want a figure", m.workload.id, m.name(), row)
					}
				}
			}
		})
	}
}

func TestPerform_TellsWrongCounts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := startServer(ctx, quickServer())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(ctx); err != nil {
			t.Error(err)
		}
	}()
	url, err := s.newDatabase(ctx)
	if err != nil {
		t.Fatal(err)
	}
	j := job{
		Contender: "raw", Workload: "W2", Fill: true, URL: url, Tasks: 50, Backlog: 60,
		BodyBytes: smallBody,
	}
	if _, err := delegate(ctx, j); err != nil {
		t.Fatal(err)
	}
	j.Fill, j.Tasks, j.Backlog = false, 70, 70
	if _, err := delegate(ctx, j); err == nil {
		t.Error("draining 70 of 60 rows = nil, want an error")
	}
}

func TestContenders_EnterKnownWorkloadsOnce(t *testing.T) {
	t.Parallel()
	known, seen := map[string]bool{}, map[string]bool{}
	for _, w := range workloads() {
		known[w.id] = true
	}
	for _, c := range contenders() {
		for _, e := range c.entries {
			name := c.name + "/" + e.workload + "/" + e.variant
			if !known[e.workload] || seen[name] {
				t.Errorf("entry %s is unknown or comes twice", name)
			}
			seen[name] = true
		}
	}
}

func TestWorkload_PickedByNumberOrName(t *testing.T) {
	t.Parallel()
	w3, w10 := workload{id: "W3-own-16"}, workload{id: "W10"}
	for list, want := range map[string][2]bool{
		"":             {true, true},
		"W3":           {true, false},
		"W1,W3-own":    {true, false},
		"W1":           {false, false},
		"W3-insert":    {false, false},
		"W2,W3-own-16": {true, false},
		"W10":          {false, true},
	} {
		if got := [2]bool{w3.picked(list), w10.picked(list)}; got != want {
			t.Errorf("picked(%q) = %v, want %v", list, got, want)
		}
	}
}

func TestJob_HasTheBacklogOfItsWorkload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		plan           plan
		workload       string
		tasks, backlog int
	}{
		{plan{Scale: 1}, "W1", 200_000, 200_000},
		{plan{Scale: 1, Quick: true}, "W1", 50_000, 50_000},
		{plan{Scale: 0.5}, "W5-2M", 50_000, 1_000_000},
		{plan{Scale: 1e-9}, "W5-2M", leastTasks, leastTasks},
		{plan{Scale: 1}, "W6", 0, 0},
	} {
		for _, w := range workloads() {
			if w.id != test.workload {
				continue
			}
			j := test.plan.job(&measured{workload: w})
			if j.Tasks != test.tasks || j.Backlog != test.backlog {
				t.Errorf("job of %s at %g = %d of %d tasks, want %d of %d", w.id,
					test.plan.Scale, j.Tasks, j.Backlog, test.tasks, test.backlog)
			}
		}
	}
}

func TestMixedAction_FourHaveNineTenths(t *testing.T) {
	t.Parallel()
	const n = 36_000
	counts := map[string]int{}
	for i := range n {
		counts[mixedAction(i)]++
	}
	common := 0
	for i := range commonActionCount {
		common += counts[actionName(i)]
	}
	if len(counts) != actionCount || common != n*9/10 {
		t.Errorf("%d actions, the common ones with %d of %d tasks", len(counts), common, n)
	}
}

func TestTaskID_HasTheLengthOfMost(t *testing.T) {
	t.Parallel()
	if id := taskID(0); len(id) != 21 || !strings.HasPrefix(id, "task-") {
		t.Errorf("taskID(0) = %q, want 21 bytes", id)
	}
}
