package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A verdict is what became of a mutant.
type verdict string

const (
	found    verdict = "found"    // a test failed
	survived verdict = "survived" // all tests passed
	stale    verdict = "stale"    // it does not apply any more
	unbuilt  verdict = "unbuilt"  // it does not build
	// unjudged says that no test has said anything: none ran, or the run broke off.
	unjudged   verdict = "unjudged"
	equivalent verdict = "equivalent" // the list says that no test can find it
)

// A result is a mutant and what became of it.
type result struct {
	Engine  string   `json:"engine"`
	Name    string   `json:"name"`
	Verdict verdict  `json:"verdict"`
	FoundBy []string `json:"foundBy,omitempty"`
	Seconds float64  `json:"seconds"`
	// Output is the end of what the tests wrote, unless they found the mutant.
	Output string `json:"output,omitempty"`
}

// A runner runs the tests of mutants in a repository.
type runner struct {
	root    string
	dir     string // for files that stand in the place of those of the repository
	timeout time.Duration
}

// try builds Stint with a mutant in it and runs the tests that find it.
func (r *runner) try(ctx context.Context, m *mutant) result {
	began := time.Now() //nolint:forbidigo // how long it takes
	got := result{Engine: m.Engine, Name: m.Name, Verdict: equivalent}
	if m.equivalent == "" {
		r.judge(ctx, m, &got)
	}
	got.Seconds = time.Since(began).Round(time.Second / 10).Seconds()
	return got
}

func (r *runner) judge(ctx context.Context, m *mutant, got *result) {
	text, err := m.changed(r.root)
	if err != nil {
		got.Verdict, got.Output = stale, err.Error()
		return
	}
	overlay, err := r.overlay(m, text)
	if err != nil {
		got.Verdict, got.Output = unjudged, err.Error()
		return
	}
	defer r.leaveNoCases(m)()
	var variables []string
	if m.file == "migrations/roles.sql" {
		variables = []string{roles + "=" + r.changedFile(m)}
	}
	output, err := r.test(ctx, m, "-overlay="+overlay, variables...)
	got.Verdict, got.FoundBy = judged(output, err)
	if got.Verdict != found {
		got.Output = tail(output)
	}
}

// leaveNoCases returns a function that removes what random tests write beside themselves when they
// fail, to begin with it the next time, unless there is such a thing already.
func (r *runner) leaveNoCases(m *mutant) (leave func()) {
	data := filepath.Join(r.root, m.pkg, "testdata")
	cases := filepath.Join(data, "rapid")
	if _, err := os.Stat(cases); err == nil { //nolint:gosec // a list names the package
		return func() {}
	}
	return func() {
		_ = os.RemoveAll(cases) //nolint:gosec // as above
		_ = os.Remove(data)     //nolint:gosec // if nothing else is in it
	}
}

// roles is the variable that names the file which tests read for migrations/roles.sql: nothing
// embeds that.
const roles = "STINT_TEST_ROLES"

// changedFile is where the text of a mutant is.
func (r *runner) changedFile(m *mutant) string {
	return filepath.Join(r.dir, m.Name+filepath.Ext(m.file))
}

// overlay writes the file that has Go read the mutant's text in the place of the file's.
func (r *runner) overlay(m *mutant, text string) (name string, err error) {
	with := r.changedFile(m)
	name = filepath.Join(r.dir, m.Name+".json")
	replace := map[string]string{filepath.Join(r.root, m.file): with}
	written, err := json.Marshal(map[string]any{"Replace": replace})
	const private = 0o600
	return name, errors.Join(err,
		os.WriteFile(with, []byte(text), private), //nolint:gosec // as above
		os.WriteFile(name, written, private))      //nolint:gosec // as above
}

// passes returns an error unless the tests of a mutant pass without it.
func (r *runner) passes(ctx context.Context, m *mutant) error {
	output, err := r.test(ctx, m, "")
	if verdict, failed := judged(output, err); verdict != survived {
		return fmt.Errorf("without a mutant, tests do not pass that should find %s (%s %v):\n%s",
			m.Name, verdict, failed, tail(output))
	}
	return nil
}

// test runs the tests of a mutant with more variables. The flag reaches the programs, too, that
// tests build.
func (r *runner) test(
	ctx context.Context, m *mutant, flag string, variables ...string,
) ([]event, error) {
	const ending = 30 * time.Second // for go test itself, which builds and stops what hangs
	ctx, cancel := context.WithTimeout(ctx, 3*r.timeout+ending)
	defer cancel()
	pattern := "^(" + strings.Join(m.tests, "|") + ")$"
	// What is built runs once: to optimize it would take longer, and so would what debuggers need.
	//nolint:gosec // a list names the package and its tests
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-count=1",
		"-gcflags=-N -l -dwarf=false", "-ldflags=-s -w",
		"-timeout="+r.timeout.String(), "-run="+pattern, m.pkg)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" "+flag)
	cmd.Env = append(cmd.Env, variables...)
	cmd.WaitDelay = ending
	var written bytes.Buffer
	cmd.Stdout, cmd.Stderr = &written, &written
	err := cmd.Run()
	return read(written.Bytes()), err
}

// An event is a line of what go test -json writes.
type event struct{ Action, Test, Output string }

func read(written []byte) (events []event) {
	for line := range bytes.Lines(written) {
		var e event
		if json.Unmarshal(line, &e) != nil { // of go itself
			e = event{Action: "output", Output: string(line)}
		}
		events = append(events, e)
	}
	return events
}

// judged says what the events of a run mean, with the tests that have failed.
func judged(events []event, err error) (verdict, []string) {
	var failed []string
	passed := 0
	for _, e := range events {
		switch {
		case e.Action == "build-fail":
			return unbuilt, nil
		case e.Test == "" || strings.Contains(e.Test, "/"):
		case e.Action == "fail":
			failed = append(failed, e.Test)
		case e.Action == "pass":
			passed++
		}
	}
	slices.Sort(failed)
	switch {
	case len(failed) > 0:
		return found, failed
	case err != nil || passed == 0:
		return unjudged, nil
	}
	return survived, nil
}

// tail is the end of what a run wrote.
func tail(events []event) string {
	const most = 20 // lines
	var lines []string
	for _, e := range events {
		if e.Output != "" {
			lines = append(lines, e.Output)
		}
	}
	return strings.Join(lines[max(len(lines)-most, 0):], "")
}
