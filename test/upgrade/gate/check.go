package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// checkMax is how long a check takes at most.
const checkMax = 15 * time.Minute

// A check is one that is being performed, in a schema of its own.
type check struct {
	dir, url, schema string
	old, latest      *release
	processes        []*process

	mutex sync.Mutex
	Check
	inserted map[string]bool // by IDs; true if the first try gives the task back
	killed   map[string]bool // workers
	flows    []string        // names, with which the IDs of their tasks begin
}

// perform performs the plan, and judges what came of it.
func (c *check) perform(ctx context.Context, p plan) {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	c.inserted, c.killed, c.Faults = map[string]bool{}, map[string]bool{}, []string{}
	err := c.prepare()
	if err == nil {
		err = p.steps(ctx, c)
	}
	for _, q := range c.processes {
		q.kill()
		if err != nil {
			c.fault("%s printed %s", q.name, q.printed.String())
		}
	}
	if err == nil {
		err = c.judge(ctx)
	}
	if err != nil {
		c.fault("%v", err)
	}
	c.Tasks = len(c.inserted)
	c.Passed = len(c.Faults) == 0
}

func (c *check) fault(format string, args ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
}

func (c *check) journal() string { return filepath.Join(c.dir, "journal") }

// prepare writes the program that performs tasks. It writes a line into the journal for each try,
// and gives a task back at its first try if the task's ID says so.
func (c *check) prepare() error {
	const program = `#!/bin/sh
printf '%s\t%s\t%s\t%s\n' "$STINT_TASK_ID" "$STINT_TRY" "$SIDE" "$WORKER" >>"$JOURNAL"
case $STINT_TRY$STINT_TASK_ID in 1*again) exit 75;; esac
`
	if err := os.MkdirAll(filepath.Join(c.dir, "programs"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(c.journal(), nil, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "programs", "step"), []byte(program), 0o700)
}

// on is the command of a release, on the tables (nil) or on a service.
func (c *check) on(r *release, s *service) party { return party{c, r, s} }

func (c *check) migrate(ctx context.Context, r *release, args ...string) error {
	_, _, err := c.on(r, nil).run(ctx, "", append([]string{"migrate"}, args...)...)
	return err
}

// work starts a worker, whose name is new.
func (p party) work(ctx context.Context) (*process, error) {
	worker := fmt.Sprintf("WORKER=%d", len(p.processes))
	env := []string{worker, "SIDE=" + p.side, "JOURNAL=" + p.journal()}
	return p.start(ctx, "worker starts", env, "worker", "--dir", filepath.Join(p.dir, "programs"),
		"--concurrency", "2", "--retry-base", "10ms")
}

// kill kills a worker, whose tries may be repeated.
func (c *check) kill(worker *process) {
	for _, variable := range worker.cmd.Env {
		if name, ok := strings.CutPrefix(variable, "WORKER="); ok {
			c.killed[name] = true
		}
	}
	worker.kill()
}

// A flow inserts networks, and waits for the end of each before the next.
type flow struct {
	name  string
	ended atomic.Int64 // networks
	over  chan struct{}
	stop  func() error
}

// pour starts a flow.
func (p party) pour(ctx context.Context) *flow {
	f := &flow{name: fmt.Sprintf("%s flow %d,", p.side, len(p.flows)), over: make(chan struct{})}
	p.flows = append(p.flows, f.name)
	asked := make(chan struct{})
	var failed error
	go func() {
		defer close(f.over)
		for n := 0; failed == nil; n++ {
			select {
			case <-asked:
				return
			default:
			}
			if failed = p.network(ctx, fmt.Sprintf("%s %d", f.name, n)); failed == nil {
				f.ended.Add(1)
			}
		}
	}()
	f.stop = sync.OnceValue(func() error {
		close(asked)
		<-f.over
		return failed
	})
	return f
}

// network inserts tasks with one that depends on them, and waits for that.
func (p party) network(ctx context.Context, name string) error {
	type line struct {
		ID         string   `json:"id"`
		Action     string   `json:"action"`
		After      []string `json:"after,omitempty"`
		PostResult bool     `json:"post_result,omitempty"`
	}
	const wide = 5
	var input strings.Builder
	encoder := json.NewEncoder(&input)
	end := line{ID: name + " end", Action: "step", PostResult: true}
	for i := range wide {
		id := fmt.Sprint(name, " ", i)
		if i == 0 {
			id += " again"
		}
		end.After = append(end.After, id)
		_ = encoder.Encode(line{ID: id, Action: "step"}) // of strings, into a Builder
	}
	_ = encoder.Encode(end)
	if err := p.call(ctx, input.String(), "insert"); err != nil {
		return err
	}
	p.mutex.Lock()
	for _, id := range append(end.After, end.ID) {
		p.inserted[id] = strings.HasSuffix(id, "again")
	}
	p.mutex.Unlock()
	return p.call(ctx, "", "wait", end.ID, "--timeout", late.String())
}

// more waits until each flow has seen the end of some more networks.
func more(ctx context.Context, flows ...*flow) error {
	const networks = 5
	for _, f := range flows {
		goal := f.ended.Load() + networks
		err := eventually(ctx, f.name, func() (bool, error) {
			select {
			case <-f.over:
				return false, f.stop()
			default:
				return f.ended.Load() >= goal, nil
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judge compares what was inserted, what the journal has and what is stored.
func (c *check) judge(ctx context.Context) error {
	if err := c.migrate(ctx, c.latest); err != nil { // where the plan did not
		return err
	}
	ended, err := c.stored(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.journal())
	if err != nil {
		return err
	}
	if err := c.compare(string(text), ended); err != nil {
		return err
	}
	return c.clean(ctx)
}

// A try is one that the journal has.
type try struct {
	id     string
	number int
}

// compare looks for tasks that were lost, and for tries that should not have been. Ended are the
// completed tasks, with their last tries.
func (c *check) compare(journal string, ended map[string]int) error {
	begun, tries, allowed := map[try]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(journal) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		t := try{id: fields[0]}
		if _, err := fmt.Sscan(fields[1], &t.number); err != nil {
			return err
		}
		begun[t]++
		tries[t.id]++
		c.Performed[fields[2]]++
		if c.killed[fields[3]] {
			allowed[t.id]++
		}
	}
	for id, again := range c.inserted {
		last := ended[id]
		if begun[try{id, last}] == 0 {
			c.Lost++
			c.fault("%q is not completed by a try that was performed: it has %d", id, last)
		}
		if again {
			allowed[id]++
		}
		if tries[id] > 1+allowed[id] {
			c.Twice++
			c.fault("%q was performed %d times", id, tries[id])
		}
	}
	for t, times := range begun {
		if times > 1 {
			c.Twice++
			c.fault("try %d of %q was performed %d times", t.number, t.id, times)
		}
	}
	return nil
}

// stored are the completed tasks, with the number of their tries.
func (c *check) stored(ctx context.Context) (map[string]int, error) {
	ended := map[string]int{}
	for _, flow := range c.flows {
		said, _, err := c.on(c.latest, nil).run(ctx, "", "ls", "--json", "--state", "completed",
			"--prefix", flow, "--limit", "10000")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(said) {
			var task struct {
				ID    string
				Tries int
			}
			if err := json.Unmarshal([]byte(line), &task); err != nil {
				return nil, err
			}
			ended[task.ID] = task.Tries
		}
	}
	return ended, nil
}

// clean looks for what is wrong with the tables.
func (c *check) clean(ctx context.Context) error {
	said, _, err := c.on(c.latest, nil).run(ctx, "", "check", "--json")
	var checked struct {
		Findings []struct{ Topic, Severity, Text string }
	}
	if wrong := json.Unmarshal([]byte(said), &checked); wrong != nil {
		return fmt.Errorf("%w: %w", wrong, err)
	}
	for _, finding := range checked.Findings {
		if finding.Topic != "settings" && finding.Severity != "note" { // of a private server
			c.fault("check: %s", finding.Text)
		}
	}
	return nil
}
