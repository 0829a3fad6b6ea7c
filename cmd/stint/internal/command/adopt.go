package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) adoptCommand() *cobra.Command {
	var environment string
	dryRun, yes := false, false
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Let a copy of a database hand out its tasks",
		Long: `Let a copy of a database hand out its tasks, fire its schedules and maintain. A
database that was restored from a dump, made by CREATE DATABASE ... TEMPLATE, or filled by
logical replication does none of that before; nor does a copy of its files, such as a base
backup, for workers that name another environment.

First abort or delete what is not to be performed here, too. The command says what will happen
and asks for confirmation, unless --yes is given. Where the database is no copy, it only gives
it the name of --environment; without one there is nothing to do, and it is refused. A copy
that is adopted without one is named by the next worker that has one.

With --json: copy, why the database was a copy (left out if it was none), environment, ready,
scheduled, in_progress (the numbers of tasks) and schedules, the number of those that are not
paused; with --dry-run would_adopt is true.`,
		Example: `  stint adopt --dry-run
  stint adopt --environment staging --yes`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := p.storeOptions()
			options.Environment = cmp.Or(environment, os.Getenv(environmentVariable))
			return p.withDirectStore(cmd.Context(), options,
				func(ctx context.Context, db *database) error {
					return p.adopt(ctx, db, options.Environment, dryRun, yes)
				})
		},
	}
	addEnvironment(cmd, &environment)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would happen")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before")
	return cmd
}

// An adoption is what an adoption leads to.
type adoption struct {
	Would       bool   `json:"would_adopt,omitzero"`
	Copy        string `json:"copy,omitzero"`
	Environment string `json:"environment,omitzero"`
	Ready       int64  `json:"ready"`
	Scheduled   int64  `json:"scheduled"`
	InProgress  int64  `json:"in_progress"`
	Schedules   int64  `json:"schedules"`
	about       string
	next        string // the schedule that occurs next
	nextAt      time.Time
}

func (p *program) adopt(
	ctx context.Context, db *database, environment string, dryRun, yes bool,
) error {
	a, err := foresee(ctx, db)
	if err != nil {
		return err
	}
	a.Environment, a.Would = environment, dryRun
	if a.Copy == "" && environment == "" {
		return said(errInput, "the database is no copy, for a store without an environment: "+
			"there is nothing to adopt; to name its environment, give --environment")
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	if !dryRun {
		if !yes {
			if err := p.mayAsk(); err != nil {
				return err
			}
			if err := p.confirm(ctx, a.text("", now)+", "+p.where(db)); err != nil {
				return err
			}
		}
		if err := stint.Adopt(ctx, db.direct); err != nil {
			return err
		}
	}
	switch {
	case p.json:
		return p.printJSON(a)
	case dryRun:
		return p.printf("%s\n", a.text("would ", now))
	}
	return p.printf("adopted: %s\n", a.text("", now))
}

// foresee finds out what happens after an adoption.
func foresee(ctx context.Context, db *database) (a adoption, err error) {
	stats, err := db.store.Stats(ctx)
	if err != nil {
		return a, err
	}
	a.Copy = stats.Copy
	if len(stats.Estimated) > 0 {
		a.about = "about "
	}
	for i := range stats.Actions {
		a.Ready += stats.Actions[i].Ready
		a.Scheduled += stats.Actions[i].Scheduled
		a.InProgress += stats.Actions[i].InProgress
	}
	schedules, err := db.store.ListSchedules(ctx)
	if err != nil {
		return a, err
	}
	for i := range schedules {
		s := &schedules[i]
		if s.NextAt.IsZero() {
			continue
		}
		a.Schedules++
		if a.next == "" || s.NextAt.Before(a.nextAt) {
			a.next, a.nextAt = s.Name, s.NextAt
		}
	}
	return a, nil
}

// text says what happens, in a line.
func (a *adoption) text(would string, now time.Time) string {
	var text strings.Builder
	if a.Copy == "" {
		fmt.Fprintf(&text, "the database is no copy; %sname its environment %q", would,
			a.Environment)
		return text.String()
	}
	ready := display.Count(a.Ready, "ready task")
	fmt.Fprintf(&text, "stores %shand out %s%s, and %s when they are due and %s when their owners "+
		"are gone", would, a.about, ready, display.Number(a.Scheduled),
		display.Number(a.InProgress))
	if a.Schedules > 0 {
		fmt.Fprintf(&text, "; they %sfire %s, first %s, due %s", would,
			display.Count(a.Schedules, "schedule"), display.Text(a.next),
			display.Relative(a.nextAt, now))
	}
	return text.String()
}
