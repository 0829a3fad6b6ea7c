package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) errorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "errors",
		SuggestFor: []string{"failures", "problems"},
		Short:      "Count failing and failed tasks by their errors",
		Long: `Group the tasks that fail, and those that failed, by action and by the first line
of what their last owners said, in which numbers, also hexadecimal ones, and what is in quotes
do not count; the largest group first. Of the tasks that wait for another try those are
looked at that were tried most often, of those that failed the latest: 10,000 of each. If
there are more, other actions with aborted tasks are named on standard error. stint show
tells more of the task that is named.

With --json, a group to a line: action, tasks (how many), error (what was said of the latest
one), example (its ID).`,
		Example: "  stint errors",
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.listErrors(cmd.Context())
		},
	}
}

type errorJSON struct {
	Action  string       `json:"action"`
	Tasks   int          `json:"tasks"`
	Error   string       `json:"error"`
	Example stint.TaskID `json:"example"`
}

func (p *program) listErrors(ctx context.Context) error {
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		problems, err := db.tasks().Problems(ctx, 1)
		if err != nil {
			return err
		}
		if problems.ErrorsCut {
			if err := p.printUncounted(ctx, db, problems.Errors); err != nil {
				return err
			}
		}
		if p.json {
			return printLines(p, problems.Errors, func(e *stint.ErrorGroup) errorJSON {
				return errorJSON(*e)
			})
		}
		if len(problems.Errors) == 0 {
			p.printNone(ctx, db, "no errors were said")
			fmt.Fprintf(p.stderr, "aborted tasks: stint ls --state aborted%s\n", p.flagsLine())
			return nil
		}
		rows := [][]string{{"TASKS", "ACTION", "ERROR", "EXAMPLE"}}
		for _, e := range problems.Errors {
			rows = append(rows, []string{
				display.Number(int64(e.Tasks)), display.Text(e.Action),
				display.FirstWords(e.Error), display.Text(string(e.Example)),
			})
		}
		return p.printTable(rows)
	})
}

// printUncounted names the actions with aborted tasks of which no group of errors tells.
func (p *program) printUncounted(
	ctx context.Context, db *database, groups []stint.ErrorGroup,
) error {
	if db.store == nil { // of shards each has its own
		return nil
	}
	stats, err := db.store.Stats(ctx)
	for i := range stats.Actions {
		a := &stats.Actions[i]
		told := func(group stint.ErrorGroup) bool { return group.Action == a.Action }
		if a.Aborted > 0 && !slices.ContainsFunc(groups, told) {
			fmt.Fprintf(p.stderr, "%s of %s not counted: others failed too often, or nobody said "+
				"why; stint ls --state aborted --action %s%s\n",
				display.Count(a.Aborted, "aborted task"), display.Text(a.Action),
				display.Word(a.Action), p.flagsLine())
		}
	}
	return err
}
