package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

func (p *program) retryCommand() *cobra.Command {
	var since age
	retry := &change{
		verb: "retry", done: "retried", unchanged: "had not finished",
		states: []stint.State{stint.StateAborted},
		also:   []stint.State{stint.StateCompleted, stint.StateSkipped},
		do:     verbs.Changer.RetryTasks,
		skip: func(task *stint.TaskInfo, now time.Time) bool {
			return task.AbortCause == stint.CauseDependency ||
				since.given && now.Sub(task.FinishedAt) > since.ago
		},
	}
	cmd := retry.command(p, &cobra.Command{
		Short: "Try finished tasks again, with the tasks aborted or skipped because of them",
		Long: `Open finished tasks again, with all their tries, and with them the tasks that were
aborted or skipped because of them, except a task that has another aborted predecessor. A
pending dependent waits for the opened tasks again; a dependent that has begun or completed
does not. A task that has not finished stays as it is, and the command says so.

Nothing is changed if one of the IDs has no task, if a predecessor of one of the tasks was
aborted and is not named too, or if tasks would wait for each other.

Instead of IDs, filters choose the tasks, as in ls: aborted ones unless --state says
completed or skipped, but not those that were aborted because of others: they are opened
with these others. The command says how many they are and asks for confirmation, unless
--yes is given. It retries 10,000 of them at a time, or more that depend on one another, and
says how many so far. If it is interrupted, these stay retried; run it again for the rest.
With --server all are in one request.

--dry-run does the work on copies of the tasks: nobody waits for it. So does the question, of
up to 10,000 tasks, to say how many go with them, and what follows: which others begin, are
skipped, or are aborted a second later. Tasks that begin or end before you answer stay as
they are, and the command says how many.

With --json: retried, the IDs of the tasks; others, how many tasks were opened with them;
and unchanged, the IDs given whose tasks had not finished, or with filters found, how many
tasks passed them. With --dry-run it is would_retry instead of retried; and started, skipped
and later say how many others would begin, be skipped, or be aborted a second later.`,
		Example: `  stint retry export/main/0042
  stint retry --action mail --aborted --since 1h`,
	})
	aborted := cmd.Flags().Bool("aborted", false, "only aborted tasks: the same as --state aborted")
	cmd.Flags().Var(&since, "since", "only tasks that finished at most this `age` ago")
	retry.filter.names = append(retry.filter.names, "since")
	retry.filter.more = aborted
	cmd.MarkFlagsMutuallyExclusive("aborted", "state")
	return cmd
}
