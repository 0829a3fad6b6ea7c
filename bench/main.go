// Bench measures Stint and its peers side by side, on a PostgreSQL of its own: which workloads, and
// what Stint wants to reach in them, README.md says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := begin(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// begin does what the process was started for.
func begin(ctx context.Context) error {
	if os.Getenv(childVariable) != "" {
		return beChild(ctx, os.Stdin, os.Stdout)
	}
	p := plan{}
	var jsonFile, svgFile string
	flag.BoolVar(&p.Quick, "quick", false, "one round of fewer workloads and tasks, in a minute")
	flag.IntVar(&p.Rounds, "rounds", 3, "how often to measure; the table shows medians")
	flag.StringVar(&p.Workloads, "w", "", "the workloads, such as W1,W3 (default all)")
	flag.StringVar(&p.Only, "only", "", "the contenders, such as stint,river (default all)")
	flag.DurationVar(&p.Snapshot, "w6", 10*time.Minute, "how long W6 lasts")
	flag.DurationVar(&p.Mixed, "w11", 10*time.Minute, "how long each variant of W11 lasts")
	flag.DurationVar(&p.Slots, "w18", 10*time.Second, "how long each variant of W18 lasts")
	flag.DurationVar(&p.Disturbed, "w19", 30*time.Second, "how long each disturbance of W19 lasts")
	flag.DurationVar(&p.Pinned, "w20", 10*time.Minute, "how long each variant of W20 lasts")
	flag.IntVar(&p.Finished, "w14", 1_000_000, "how many finished tasks W14 keeps, at least")
	flag.Float64Var(&p.Scale, "scale", 1, "multiply all numbers of tasks")
	flag.StringVar(&jsonFile, "json", "", "also write the results as JSON to this `file`")
	flag.StringVar(&svgFile, "svg", "", "also draw them into this `file`")
	publish := flag.Bool("publish", false, "also put them into "+publishedFile+
		", of which the pages are made: go test -run Pages . -update")
	flag.Parse()
	if p.Quick {
		p.Rounds = 1
	}
	if flag.NArg() > 0 || p.Rounds < 1 || p.Scale <= 0 || len(p.measurements()) == 0 {
		flag.Usage()
		return errors.New("nothing to measure")
	}
	found, err := p.perform(ctx, os.Stdout, os.Stderr)
	if *publish && err == nil {
		err = found.publish(publishedFile)
	}
	return errors.Join(err, found.write(os.Stdout),
		writeFile(jsonFile, found.writeJSON),
		writeFile(svgFile, func(w io.Writer) error { return writeChart(w, found) }))
}

// findings are all that was found, as the JSON has it.
type findings struct {
	Machine machine   `json:"machine"`
	Plan    plan      `json:"plan"`
	Seconds float64   `json:"seconds"` // that it took
	Results results   `json:"results"`
	Bars    []verdict `json:"bars"`
	Courses []course  `json:"courses,omitempty"`
}

// perform carries the plan out on a server of its own.
func (p plan) perform(ctx context.Context, out, progress io.Writer) (found findings, err error) {
	begun := now()
	s, err := startServer(ctx, p.settings)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	found.Plan = p
	if found.Machine, err = s.machine(ctx); err != nil {
		return found, err
	}
	if err := found.Machine.write(out); err != nil {
		return found, err
	}
	all, err := p.carryOut(ctx, s, progress)
	found.Results = resultsOf(all)
	found.Bars = verdicts(found.Results)
	found.Courses = coursesOf(all)
	found.Seconds = time.Since(begun).Seconds()
	return found, err
}

// write writes the tables for people.
func (f findings) write(w io.Writer) error {
	if err := writeTable(w, f.Results); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := writeBars(w, f.Bars); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nmedians of %d, in %.0f s\n", f.Plan.Rounds, f.Seconds)
	return err
}

func (f findings) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(f)
}

// writeFile writes a file, if it has a name.
func writeFile(name string, write func(w io.Writer) error) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name) //nolint:gosec // The caller says where.
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
