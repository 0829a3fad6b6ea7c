package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	engine, name, seed, file string
	sample                   int
	check, open              bool
	timeout                  time.Duration
}

func readOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.engine, "engine", "", "only the mutants of this `engine`")
	flags.StringVar(&o.name, "name", "", "only the mutant of this `name`")
	flags.IntVar(&o.sample, "n", 0, "only a sample of so many `mutants`")
	flags.StringVar(&o.seed, "seed", "", "what chooses the sample; default: the commit")
	flags.StringVar(&o.file, "json", "", "write the results to this `file`")
	flags.BoolVar(&o.check, "check", false,
		"first see whether the tests of each mutant pass without it")
	flags.BoolVar(&o.open, "open", false,
		"only those of which the lists do not say what finds them")
	// Tests wait up to two minutes for news that do not come, before they say so.
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long the tests of one may take")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("there are no arguments, only flags: %q", flags.Args())
	}
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	mutants, err := all()
	if err != nil {
		return err
	}
	if mutants, err = o.choose(ctx, root, mutants); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &runner{root: root, dir: dir, timeout: o.timeout}
	var results []result
	for i, m := range mutants {
		if o.check && m.equivalent == "" {
			if err := r.passes(ctx, m); err != nil {
				return err
			}
		}
		got := r.try(ctx, m)
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(out, "%d/%d %s: %s in %.1f s\n", i+1, len(mutants), m.Name, got.Verdict,
			got.Seconds)
		results = append(results, got)
	}
	return errors.Join(ctx.Err(), write(o.file, results), report(out, results))
}

// choose returns the mutants that the options name.
func (o *options) choose(
	ctx context.Context, root string, mutants []*mutant,
) ([]*mutant, error) {
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool {
		return o.engine != "" && m.Engine != o.engine || o.name != "" && m.Name != o.name ||
			o.name == "" && o.open != (m.open != "")
	})
	if len(mutants) == 0 {
		return nil, fmt.Errorf("there is no mutant %q of engine %q: look into mutants/list",
			o.name, o.engine)
	}
	if o.sample == 0 || o.sample >= len(mutants) {
		return mutants, nil
	}
	seed := o.seed
	if seed == "" {
		git := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
		git.Dir = root
		commit, err := git.Output()
		if err != nil {
			return nil, fmt.Errorf("a sample needs a commit, or -seed: %w", err)
		}
		seed = strings.TrimSpace(string(commit))
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(seed))                 // never fails
	order := rand.New(rand.NewPCG(hash.Sum64(), 0)) //nolint:gosec // no secret
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return m.equivalent != "" })
	order.Shuffle(len(mutants), func(i, j int) {
		mutants[i], mutants[j] = mutants[j], mutants[i]
	})
	return mutants[:min(o.sample, len(mutants))], nil
}

// repository returns the directory of Stint's repository, in which the process runs.
func repository() (string, error) {
	const first = "module github.com/stint-tasks/stint\n"
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // of this tree
		if readErr == nil && strings.HasPrefix(string(text), first) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("this is not in a repository of Stint: run it in the directory chaos")
		}
	}
	return "", err
}

// write writes results to a file, unless its name is empty.
func write(name string, results []result) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o600) //nolint:gosec // a flag names it
}

// report writes a table of results, and returns an error unless all mutants were found that can be.
func report(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	counts := map[verdict]int{}
	fmt.Fprintln(table, "engine\tmutant\tverdict\tseconds\tfound by")
	for _, r := range results {
		counts[r.Verdict]++
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f\t%s\n", r.Engine, r.Name, r.Verdict, r.Seconds,
			strings.Join(r.FoundBy, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Output != "" {
			fmt.Fprintf(out, "\n%s: %s\n%s", r.Name, r.Verdict, r.Output)
		}
	}
	fmt.Fprintf(out, "\n%d found, %d survived, %d stale, %d unbuilt, %d unjudged, %d equivalent\n",
		counts[found], counts[survived], counts[stale], counts[unbuilt], counts[unjudged],
		counts[equivalent])
	if left := len(results) - counts[found] - counts[equivalent]; left > 0 {
		return fmt.Errorf("%d of %d mutants were not found", left, len(results))
	}
	return nil
}
