//go:build linux

// Command failover takes the primary of a PostgreSQL cluster away while tasks are inserted and
// performed, and looks whether anything that was promised is lost.
//
//	go run -C examples ./failover -scenario kill
//	go run -C examples ./failover -all -rounds 3
//
// It starts three nodes with Patroni and one etcd on this machine, in a temporary directory and on
// free ports, and installs nothing; if a program is missing, it says how to get it. It runs on
// Linux only. docs/operations/failover.md has its table, and says what a service has to set.
//
// The scenarios, each on a cluster of its own:
//
//   - kill: PostgreSQL and Patroni are killed (kill -9).
//   - freeze: PostgreSQL and Patroni are stopped (SIGSTOP). When another primary has taken over,
//     PostgreSQL goes on (SIGCONT), and then Patroni.
//   - switchover: Patroni is told to make another node the primary.
//   - cut: the network between the primary and the other nodes and etcd is cut. Clients still reach
//     all nodes.
//
// Where to read:
//
//   - scenario.go is what happens in a run.
//   - load.go inserts and performs; ledger.go holds what clients were told, and judges.
//   - patroni.yaml is the settings of a node; cluster.go, node.go and account.go start and end the
//     processes; proxy.go is a network that can be cut.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program on the spot
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

// command is the program from its arguments to its error.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("failover", flag.ContinueOnError)
	scenario := flags.String("scenario", scenarios()[0],
		"do that to the primary: "+strings.Join(scenarios(), ", "))
	all := flags.Bool("all", false, "do all of them, one after the other")
	rounds := flags.Int("rounds", 1, "do each `N` times")
	verbose := flags.Bool("v", false, "tell what happens meanwhile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := []string{*scenario}
	if *all {
		chosen = scenarios()
	}
	if !slices.Contains(scenarios(), *scenario) || *rounds < 1 || flags.NArg() > 0 {
		return errors.New("no such scenario, fewer than one round, or an argument too many")
	}
	logger := slog.New(slog.DiscardHandler)
	if *verbose {
		logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	p, err := findPrograms()
	if err != nil {
		return err
	}
	var rows []row
	for _, scenario := range chosen {
		r := row{scenario: scenario}
		for range *rounds {
			v, err := play(ctx, p, scenario, logger)
			if err != nil {
				return fmt.Errorf("%s: %w", scenario, err)
			}
			for _, detail := range v.details {
				fmt.Fprintf(stderr, "%s: %s\n", scenario, detail)
			}
			r.verdicts = append(r.verdicts, v)
		}
		rows = append(rows, r)
	}
	return printTable(stdout, rows)
}

// A row is the runs of a scenario.
type row struct {
	scenario string
	verdicts []*verdict
}

// printTable prints a row for each scenario. The error says that a promise was broken.
func printTable(to io.Writer, rows []row) error {
	columns := []string{
		"scenario", "runs", "tasks", "until a worker went on, s", "until all did, s",
		"owned at the fault", "tried again", "tries at most", "inserts repeated",
		"inserts lost", "returns lost", "accepted twice", "accepted by the old primary",
		"`Check` finds",
	}
	fmt.Fprintf(to, "| %s |\n|%s\n", strings.Join(columns, " | "),
		strings.Repeat(" --- |", len(columns)))
	bad := 0
	for _, r := range rows {
		sum := verdict{}
		var took, all []time.Duration
		for _, v := range r.verdicts {
			took, all = append(took, v.gap), append(all, v.slowest)
			sum.add(v)
			if v.bad() {
				bad++
			}
		}
		fmt.Fprintf(to, "| %s | %d | %d | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n",
			r.scenario, len(r.verdicts), sum.tasks, spread(took), spread(all),
			sum.underWay, sum.retried, sum.triesMax, sum.repeated,
			sum.insertsLost, sum.returnsLost, sum.doubles, sum.acceptedByOld, sum.problems)
	}
	if bad > 0 {
		return fmt.Errorf("a promise was broken in %d runs", bad)
	}
	return nil
}

// spread is the least, the median and the most.
func spread(took []time.Duration) string {
	slices.Sort(took)
	const half = 2
	return fmt.Sprintf("%.1f / %.1f / %.1f", took[0].Seconds(), took[len(took)/half].Seconds(),
		took[len(took)-1].Seconds())
}

func (v *verdict) add(other *verdict) {
	v.tasks += other.tasks
	v.repeated += other.repeated
	v.underWay += other.underWay
	v.retried += other.retried
	v.triesMax = max(v.triesMax, other.triesMax)
	v.insertsLost += other.insertsLost
	v.returnsLost += other.returnsLost
	v.doubles += other.doubles
	v.acceptedByOld += other.acceptedByOld
	v.problems += other.problems
}
