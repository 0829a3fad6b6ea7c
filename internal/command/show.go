package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"get", "status"},
		Short:      "Show a task, with its body and result",
		Long: `Show all that the store knows of a task. If the body or the result is long, or is not
text, only its size is shown.

With --json, the task (see: stint help json), with all of its body and result.`,
		Example: `  stint show greet/world
  stint show greet/world --json | jq -r .result`,
		GroupID:           groupTasks,
		Args:              oneID,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				tasks, err := db.store.GetTasks(ctx, []stint.TaskID{stint.TaskID(args[0])})
				if err != nil {
					return err
				}
				return p.printTask(ctx, db, &tasks[0])
			})
		},
	}
}

func (p *program) printTask(ctx context.Context, db *database, task *stint.TaskInfo) error {
	if p.json {
		return p.printJSON(newTaskJSON(task))
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, line := range readable.Task(task, now, p.painter()) {
		// Further lines of a value are put below the first one.
		value := strings.ReplaceAll(line.Value, "\n", "\n\t")
		rows = append(rows, []string{line.Name, value})
	}
	return p.printTable(rows)
}
