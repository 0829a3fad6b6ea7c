// Command gate checks that a release works beside the one before it. It builds the command of two
// commits, lets both insert and perform tasks in the same tables, upgrades and rolls back
// meanwhile, and writes a report:
//
//	go run ./test/upgrade/gate -from v0.1.0 -report gate.json
//
// It fails if a task was lost or performed again after its end was accepted, or if a call was
// refused. It needs Unix, and finds PostgreSQL as the tests do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/testing/releases"
)

// firstSchema is the last commit with version 1 of the schema, and stands for the release before
// the first one.
const firstSchema = "03fd0db35a579b4fc9ef62c88fd06090b1bf31b6"

func main() {
	var from, to, report string
	flag.StringVar(&from, "from", "", "the tag or `commit` before (default: the newest tag of a "+
		"release before the one to check, else "+firstSchema[:8]+")")
	flag.StringVar(&to, "to", "HEAD", "the `commit` to check")
	flag.StringVar(&report, "report", "", "the `file` for the report (default: standard output)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, from, to, report); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

var errFailed = errors.New("a check failed")

func run(ctx context.Context, from, to, report string) (err error) {
	if from == "" {
		if from, err = releases.Before(ctx, to); err != nil {
			return err
		}
	}
	if from == "" {
		from = firstSchema
		fmt.Fprintf(os.Stderr, "no release is before %s: the commit %s, the last with version 1 "+
			"of the schema, stands for it\n", to, from[:8])
	}
	dir, err := os.MkdirTemp("", "stint-gate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	old, err := build(ctx, dir, "old", from)
	if err != nil {
		return err
	}
	latest, err := build(ctx, dir, "new", to)
	if err != nil {
		return err
	}
	server, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	r := Report{Name: "upgrade gate", From: old.Release, To: latest.Release, Passed: true}
	for i, p := range plans() {
		c := &check{
			dir: filepath.Join(dir, fmt.Sprint("check", i)), url: server.URL("postgres"),
			schema: fmt.Sprint("gate", i), old: old, latest: latest,
			Check: Check{Name: p.name, Performed: map[string]int{}, Calls: map[string]int{}},
		}
		c.perform(ctx, p)
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, c.Check)
		r.Checks, r.Passed = append(r.Checks, c.Check), r.Passed && c.Passed
	}
	if err := r.write(report); err != nil || r.Passed {
		return err
	}
	return errFailed
}

// A Report is what the gate found.
type Report struct {
	Name   string  `json:"name"`
	From   Release `json:"from"`
	To     Release `json:"to"`
	Passed bool    `json:"passed"`
	Checks []Check `json:"checks"`
}

// A Release is a commit whose command was built.
type Release struct {
	Name   string `json:"name"` // as it was asked for
	Commit string `json:"commit"`
	Schema int    `json:"schema"` // the newest version that it makes
}

// A Check is one way to run both releases together. Performed and Calls are by old and new.
type Check struct {
	Name      string         `json:"name"`
	Passed    bool           `json:"passed"`
	Tasks     int            `json:"tasks"`     // whose insertion was confirmed
	Performed map[string]int `json:"performed"` // tries
	Calls     map[string]int `json:"calls"`     // that insert or wait
	Repeated  int            `json:"repeated"`  // calls, since a service was being replaced
	Refused   int            `json:"refused"`   // calls
	Lost      int            `json:"lost"`      // tasks that did not complete
	Twice     int            `json:"twice"`     // tries after an accepted end, or begun twice
	Faults    []string       `json:"faults"`
}

func (c Check) String() string {
	result := "passed"
	if !c.Passed {
		result = fmt.Sprintf("FAILED %q", c.Faults)
	}
	return fmt.Sprintf("%s: %s; %d tasks, tries %v, calls %v, repeated %d, refused %d, lost %d, "+
		"twice %d", c.Name, result, c.Tasks, c.Performed, c.Calls, c.Repeated, c.Refused, c.Lost,
		c.Twice)
}

func (r Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
