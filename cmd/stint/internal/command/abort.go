package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

func (p *program) abortCommand() *cobra.Command {
	var status string
	abort := &change{
		verb: "abort", done: "aborted", unchanged: "had finished already", interrupts: true,
		states: bulk.Abortable(),
		do: func(
			store verbs.Changer, ctx context.Context, ids []stint.TaskID,
		) (stint.Affected, error) {
			return store.AbortTasks(ctx, ids, status)
		},
	}
	cmd := abort.command(p, &cobra.Command{
		SuggestFor: []string{"cancel", "kill", "stop"},
		Short:      "Abort tasks, with everything that depends on them",
		Long: `Abort tasks, whatever their state, and then their dependents, except those that run
anyway. A task that has finished already stays as it is, and the command says so. If
one of the IDs has no task, nothing is aborted.

Instead of IDs, filters can choose the tasks, as in ls: those that have not finished. The
command says how many they are and asks for confirmation, unless --yes is given. It aborts
10,000 of them at a time, or more that depend on one another, and says how many so far. If
it is interrupted, these stay aborted; run it again for the rest. With --server all are in
one request.

--dry-run does the work on copies of the tasks: nobody waits for it. So does the question, of
up to 10,000 tasks, to say how many go with them, and what follows: which others begin, are
skipped, or are aborted a second later. Tasks that begin or end before you answer stay as
they are, and the command says how many.

With --json: aborted, the IDs of the tasks; in_progress, how many of them were in
progress; others, how many dependents were aborted with them; and unchanged, the IDs given
whose tasks had finished, or with filters found, how many tasks passed them. With --dry-run
it is would_abort instead of aborted; and started, skipped and later say how many others
would begin, be skipped, or be aborted a second later.`,
		Example: `  stint abort export/main/end
  stint abort greet/world greet/moon --status "nobody is at home"
  stint abort --action mail --older-than 7d --dry-run
  stint abort --action mail --older-than 7d --yes`,
	})
	cmd.Flags().StringVar(&status, "status", "", "the reason, a `text` for people")
	return cmd
}
