package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) retryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID...",
		Short: "Try finished tasks again, with the tasks aborted because of them",
		Long: `Open finished tasks again, with all their tries, and with them the tasks that were
aborted because of them; but not a task that has another aborted predecessor. A pending
dependent waits for the opened tasks again; a dependent that has begun or completed does
not. A task that has not finished stays as it is, and that is no error.

Nothing is changed if one of the IDs has no task, if a predecessor of one of the tasks was
aborted and is not named as well, or if tasks would wait for each other.

With --json: retried, the IDs given.`,
		Example: `  stint retry export/main/0042
  stint ls --state aborted --json | jq -r 'select(.abort_cause == "tries").id' |
    xargs stint retry`,
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "retried",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.RetryTasks(ctx, ids)
				})
		},
	}
}
