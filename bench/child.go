package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// childVariable is the environment variable that makes the program a child: it reads a job from its
// standard input, does it and writes a report. One process does one thing, so that its memory is
// that of one contender's one workload, and nothing is warm from the one before.
const childVariable = "STINT_BENCH_CHILD"

// A job is what a child is to do.
type job struct {
	Contender string
	Workload  string
	Variant   string

	// Fill asks for the tables and the backlog, and not for the measurement.
	Fill bool

	// Perform asks for a worker that performs what the process that asks for it inserts.
	Perform bool

	URL       string            // of the database
	Second    string            // URL of the second one, empty if there is none
	Settings  map[string]string // of the server
	Tasks     int               // to measure
	Backlog   int               // tasks that there are before
	BodyBytes int
	Callers   int
	PerSecond int
	Lasts     time.Duration
}

func (j job) String() string {
	what := "measure"
	switch {
	case j.Fill:
		what = "fill"
	case j.Perform:
		what = "perform"
	}
	return fmt.Sprintf("%s %s for %s %s", what, j.Workload, j.Contender, j.Variant)
}

// A report is what a child found.
type report struct {
	Tasks   int
	Seconds float64
	WAL     int64 // bytes

	Flights int64 // round trips to the server

	Transactions int64 // committed or rolled back

	// ServerCPU and ClientCPU are seconds of the processor; zero if they are not known.
	ServerCPU, ClientCPU float64

	PeakBytes int64 // the most memory that the child had

	// Figures are those of the workload, by name; a rate alone follows from the above. What filling
	// the tables told is among them.
	Figures map[string]float64

	// Looks are what there was meanwhile, where the workload has somebody look.
	Looks []look
}

// value is a figure of the report.
func (r report) value(f figure) float64 {
	if f == rate {
		return float64(r.Tasks) / r.Seconds
	}
	return r.Figures[f.name]
}

func (r *report) set(name string, value float64) {
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	r.Figures[name] = value
}

// patience is how long a job may take, besides what it is meant to last: an hour's worth of figures
// should not be lost to a contender that waits for a task which never comes.
const patience = 15 * time.Minute

// patienceEach is how much longer a job may take for each task of a backlog.
const patienceEach = 50 * time.Microsecond

// delegate has a child do a job.
func delegate(ctx context.Context, j job) (report, error) {
	ctx, cancel := context.WithTimeout(ctx,
		patience+j.Lasts+time.Duration(j.Backlog)*patienceEach)
	defer cancel()
	input, err := json.Marshal(j)
	if err != nil {
		return report{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return report{}, err
	}
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // It is this program.
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return report{}, err
	}
	go func() {
		_, err := in.Write(input)
		_ = errors.Join(err, in.Close()) // a child that does not read says so itself
	}()
	output, err := cmd.Output()
	if err != nil {
		return report{}, fmt.Errorf("%s: %w", j, err)
	}
	var found report
	if err := json.Unmarshal(output, &found); err != nil {
		return report{}, fmt.Errorf("%s: %w", j, err)
	}
	found.PeakBytes = peakBytes(cmd.ProcessState)
	return found, nil
}

// beChild does the job that it reads, and writes the report.
func beChild(ctx context.Context, in io.Reader, out io.Writer) error {
	var j job
	input := json.NewDecoder(in)
	if err := input.Decode(&j); err != nil {
		return err
	}
	c, e, ok := lookUp(j)
	if !ok {
		return fmt.Errorf("no contender %q has an entry %q, %q", j.Contender, j.Workload, j.Variant)
	}
	r, err := newRun(ctx, j)
	if err != nil {
		return err
	}
	switch {
	case j.Perform:
		return errors.Join(bePerformer(ctx, r, e.perform, in, out), r.close(ctx))
	case j.Fill:
		err = c.create(ctx, r)
		if err == nil && e.fill != nil {
			err = e.fill(ctx, r)
		}
	default:
		err = e.measure(ctx, r)
	}
	if err := errors.Join(err, r.close(ctx)); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r.report)
}
