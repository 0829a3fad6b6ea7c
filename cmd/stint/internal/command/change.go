package command

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// changeFlags say what is changed of tasks.
type changeFlags struct {
	now      bool
	at       time.Time
	in       time.Duration
	priority int16
	key      string
	tries    int
}

func (f *changeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.now, "start-now", false, "start the tasks at once")
	flags.TimeVar(&f.at, "start-at", time.Time{}, []string{time.RFC3339Nano},
		"start them at this `time`, such as 2026-12-24T18:00:00Z, at the earliest")
	flags.DurationVar(&f.in, "start-in", 0, "start them that `long` from now, such as 90m")
	flags.Int16Var(&f.priority, "set-priority", 0, "their new `priority`, higher first")
	flags.StringVar(&f.key, "set-key", "", "their new `key`; an empty one is none")
	flags.IntVar(&f.tries, "set-max-tries", 0,
		"the most `times` that they are tried, those before included; -1: no limit")
}

// changes are what the flags say.
func (f *changeFlags) changes(cmd *cobra.Command) (stint.TaskChanges, error) {
	given := cmd.Flags().Changed
	count := func(names ...string) (n int) {
		for _, name := range names {
			if given(name) {
				n++
			}
		}
		return n
	}
	to := stint.TaskChanges{StartNow: f.now, NotBefore: f.at, StartAfter: f.in, MaxTries: f.tries}
	if given("set-priority") {
		to.Priority = &f.priority
	}
	if given("set-key") {
		to.Key = &f.key
	}
	switch starts := count("start-now", "start-at", "start-in"); {
	case starts > 1:
		return to, said(errInput, "expected one of --start-now, --start-at and --start-in")
	case starts+count("set-priority", "set-key", "set-max-tries") == 0:
		return to, said(errInput, "expected what to change, such as --start-now or --set-priority")
	case given("start-now") && !f.now:
		return to, said(errInput, "--start-now=false changes nothing")
	case given("start-at") && f.at.IsZero():
		return to, said(errInput, "invalid --start-at: it is too early")
	case given("start-in") && f.in <= 0:
		return to, said(errInput, "invalid --start-in: it must be positive")
	case given("set-max-tries") && (f.tries < stint.UnlimitedTries || f.tries == 0 ||
		f.tries > math.MaxInt32):
		return to, said(errInput, "invalid --set-max-tries: it must be -1, or 1 to 2147483647")
	case f.key != "":
		return to, cmp.Or(checkNames("set-key", f.key), checkTyped("--set-key", f.key))
	}
	return to, nil
}

func (p *program) changeCommand() *cobra.Command {
	var given changeFlags
	var to stint.TaskChanges
	change := &change{
		verb: "change", done: "changed", unchanged: "had that already", separate: true,
		states: bulk.Changeable(),
		do: func(
			store verbs.Changer, ctx context.Context, ids []stint.TaskID,
		) (stint.Affected, error) {
			return store.ChangeTasks(ctx, ids, to)
		},
	}
	cmd := change.command(p, &cobra.Command{
		SuggestFor: []string{"reschedule", "update", "edit", "move", "postpone"},
		Short:      "Change when waiting tasks start, their priority, key or limit of tries",
		Long: `Change tasks that wait: blocked, scheduled and ready ones, and those that are due for
another try. They keep their dependencies, their history and their age in the queue. A task
that is so already stays as it is, and the command says so. If one of the tasks is in
progress or has finished, or one of the IDs has no task, nothing is changed.

A limit of tries counts those that a task has had; a task that has reached it has one left.

Instead of IDs, filters can choose the tasks, as in ls: those that wait. The command says
how many they are and asks for confirmation, unless --yes is given. It changes 10,000 of
them at a time and says how many so far; those that have begun meanwhile are left out. If it
is interrupted, these stay changed; run it again for the rest.

--dry-run does the work on copies of the tasks: nobody waits for it. So does the question, of
up to 10,000 tasks.

With --json: changed, the IDs of the tasks; unchanged, the IDs of those that were so already;
with filters also found, how many tasks passed them; and others, which is 0. With --dry-run
it is would_change instead of changed, with started, skipped and later, all 0.`,
		Example: `  stint change report/7 --start-now
  stint change mail/9 --start-at 2026-12-24T18:00:00Z --set-priority 5
  stint change --action mail --key customer-7 --start-in 2h --yes`,
	})
	given.add(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if to, err = given.changes(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
