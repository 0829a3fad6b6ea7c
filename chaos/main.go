//go:build unix

// Command chaos runs workloads in several processes against a PostgreSQL of its own, disturbs them
// by a seeded plan, and checks every move of every task.
//
//	go run . -list
//	go run . -fault kill-server,lost-commit -rounds 3 -seed 7 -for 10s -load 0.5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stint-tasks/stint/chaos/faults"
	"github.com/stint-tasks/stint/chaos/record"
	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/chaos/work"
)

// options are those of the command line.
type options struct {
	list, write, keep bool
	faults            string
	rounds, times     int
	seed              uint64
	lasts             time.Duration
	load              float64
	long              time.Duration
	record            string // the path
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if job := os.Getenv(work.Variable); job != "" {
		if err := work.Main(context.WithoutCancel(ctx), job); err != nil {
			fmt.Fprintln(os.Stderr, "a process of the round:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.BoolVar(&o.list, "list", false, "list the faults")
	flag.BoolVar(&o.write, "write", false, "write docs/track-record.md from the record")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory of each round")
	flag.StringVar(&o.faults, "fault", "", "names of faults, separated by commas (default all)")
	flag.IntVar(&o.rounds, "rounds", 1, "rounds of each fault")
	flag.IntVar(&o.times, "times", 1, "how often the fault happens in a round")
	some := rand.Uint64N(seedsMax) //nolint:gosec // to be repeated
	flag.Uint64Var(&o.seed, "seed", some, "seed of the first round; each has one more")
	flag.DurationVar(&o.lasts, "for", 5*time.Second, "how long a fault lasts")
	flag.Float64Var(&o.load, "load", 1.0/2, "tasks inserted, as a fraction of the full rate")
	flag.DurationVar(&o.long, "long", 0, "run without faults for so long, and print measurements")
	flag.StringVar(&o.record, "record", recordPath, "the file that rounds are added to")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const seedsMax = 1_000_000

var errViolated = errors.New("promises were broken")

func run(ctx context.Context, o options) error {
	chosen, err := chosenFaults(o.faults)
	if err != nil {
		return err
	}
	if o.list {
		for _, f := range chosen {
			fmt.Fprintf(os.Stdout, "%-24s %s\n", f.Name, f.Text)
		}
		return nil
	}
	if o.write {
		return writePage(o.record)
	}
	c, err := begin(ctx, o)
	if err != nil {
		return err
	}
	if o.long > 0 {
		err = c.runLong(ctx)
	} else {
		err = c.rounds(ctx, chosen)
	}
	return errors.Join(err, c.end(context.WithoutCancel(ctx)))
}

// chosenFaults are those with the names, or all.
func chosenFaults(names string) ([]faults.Fault, error) {
	all := append([]faults.Fault{none()}, faults.All()...)
	if names == "" {
		return all, nil
	}
	var chosen []faults.Fault
	for name := range strings.SplitSeq(names, ",") {
		before := len(chosen)
		for _, f := range all {
			if f.Name == name {
				chosen = append(chosen, f)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no fault %q: -list shows them", name)
		}
	}
	return chosen, nil
}

// none is the fault that is none: what a round finds then, the workloads alone have done.
func none() faults.Fault {
	return faults.Fault{
		Name: "none", Text: "nothing happens",
		Do: func(ctx context.Context, _ *system.System, _ *rand.Rand, d time.Duration) error {
			work.Pause(ctx, d)
			return ctx.Err()
		},
	}
}

// The files that are written of the record, and that of the long run, from the directory of the
// module.
const (
	pagePath  = "../docs/track-record.md"
	chartPath = "../docs/long-run.svg"
	longPath  = "long.jsonl"
)

// writePage writes the tables of the page, and its chart.
func writePage(path string) error {
	rounds, err := record.Read(path)
	if err != nil {
		return err
	}
	long, err := record.ReadLong(longPath)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(pagePath)
	if err != nil {
		return err
	}
	text, err := record.Page(string(page), rounds, long)
	if err != nil {
		return fmt.Errorf("%s: %w", pagePath, err)
	}
	const mode = 0o644
	if len(long.Minutes) > 0 {
		if err := os.WriteFile(chartPath, []byte(record.Chart(long)), mode); err != nil {
			return err
		}
	}
	return os.WriteFile(pagePath, []byte(text), mode) //nolint:gosec // a page for everybody
}
