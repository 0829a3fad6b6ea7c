package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) retryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID...",
		Short: "Try finished tasks again, with what was aborted because of them",
		Long: `Open finished tasks again, with all their tries before them, and with them what was
aborted because of them; but not what another aborted predecessor keeps down. A pending
dependent waits for them again; one that has begun or completed does not. A task that has
not finished stays as it is, and that is no error. If there is no task of one of the IDs,
a predecessor of one was aborted and is not named as well, or tasks would wait for each
other, nothing is changed.

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
