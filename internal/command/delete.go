package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "delete ID...",
		SuggestFor: []string{"rm", "remove"},
		Short:      "Delete tasks",
		Long: `Remove tasks from the store, finished ones included, so that their IDs are free. The
dependents of an unfinished task no longer wait for it; a dependent that then has nothing
left to wait for is deleted too. If one of the tasks is in progress, or one of the IDs has
no task, nothing is deleted.

With --json: deleted, the IDs given.`,
		Example:           "  stint delete greet/world",
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "deleted",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.DeleteTasks(ctx, ids)
				})
		},
	}
}
