package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) debounceCommand() *cobra.Command {
	var given taskFlags
	var quiet, atMost time.Duration
	cmd := &cobra.Command{
		Use:   "debounce ID",
		Short: "Insert a task that starts when the calls for it have been quiet for a while",
		Long: `Insert a task that starts --quiet after this call, or replace the one of earlier
calls that has not started, which then starts --quiet after this call, but at most --at-most after
the first of them. If it is in progress, one task more runs after it, with a "+" behind
the ID, and further calls replace that.

With --json: id.`,
		Example: `  stint debounce index/doc-7 --action index --body 7 --quiet 30s --at-most 5m`,
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"action", "quiet", "at-most"} {
				if !cmd.Flags().Changed(flag) {
					return said(errInput, "expected --%s", flag)
				}
			}
			task, err := given.task(cmd, args[0])
			if err != nil {
				return err
			}
			return p.debounce(cmd.Context(), task, quiet, atMost)
		},
	}
	given.add(p, cmd, "the `action` of the task")
	flags := cmd.Flags()
	flags.DurationVar(&quiet, "quiet", 0, "start that `long` after the last call, such as 30s")
	flags.DurationVar(&atMost, "at-most", 0,
		"start at most that `long` after the first, such as 5m")
	return cmd
}

func (p *program) debounce(
	ctx context.Context, task stint.Task, quiet, atMost time.Duration,
) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		p.warnTasks(ctx, db, []stint.Task{task})
		if err := db.store.Debounce(ctx, task, quiet, atMost); err != nil {
			return flagsOf(err)
		}
		if p.json {
			return p.printJSON(map[string]any{"id": task.ID})
		}
		return p.printf("debounced %s\n", display.Text(string(task.ID)))
	})
}
