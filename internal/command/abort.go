package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) abortCommand() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use:        "abort ID...",
		SuggestFor: []string{"cancel", "kill", "stop"},
		Short:      "Abort tasks, with everything that depends on them",
		Long: `Abort tasks, whatever their state, and then their dependents, except for those that
run anyway. A task that has finished already stays as it is, and that is no error. If
one of the IDs has no task, nothing is aborted.

With --json: aborted, the IDs given.`,
		Example: `  stint abort export/main/end
  stint abort greet/world greet/moon --status "nobody is at home"`,
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "aborted",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.AbortTasks(ctx, ids, status)
				})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "say why, in a `text` for people")
	return cmd
}
