package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) changesCommand() *cobra.Command {
	filter := stint.ChangeFilter{}
	var after string
	cmd := &cobra.Command{
		Use:        "changes [ID]",
		SuggestFor: []string{"audit", "log"},
		Short:      "List who has changed tasks and settings, and why",
		Long: `List who has aborted, retried, deleted and answered tasks, and changed limits, pauses
and schedules, and why, the newest changes first: those made by this command and by the web
interface, and by programs that say who they are. With an ID, those of the tasks that have or
had this ID, also if they are gone. Changes are known for 90 days, or as long as
Retention.Changes of the workers says.

With --topology, name a task.

With --json, a change to a line: at, by, reason, verb (such as "AbortTasks"), action (left
out for schedules), items (how many tasks, keys or schedules), names (the first ten of them),
others (how many tasks changed with them), detail (what was set).`,
		Example: `  stint changes
  stint changes mail/7
  stint changes --action mail --json | jq -r .by`,
		GroupID: groupOperations,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("expected one task ID at most")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if len(filter.Actions) > 0 {
					return said(errInput, "an ID and --action do not go together")
				}
				filter.ID = stint.TaskID(args[0])
			}
			filter.After = stint.Cursor(after)
			return p.changes(cmd.Context(), filter)
		},
	}
	cmd.ValidArgsFunction = p.taskIDs
	cmd.Flags().StringArrayVar(&filter.Actions, "action", nil,
		"only changes of tasks with this `action`, and of it (repeatable)")
	cmd.Flags().IntVar(&filter.Limit, "limit", listedTasksDefault,
		"maximum number `n` of changes (1 to 1,000)")
	cmd.Flags().StringVar(&after, "after", "", "start after this `place`: what the last page named")
	completeBy(cmd, "action", p.actions)
	return cmd
}

func (p *program) changes(ctx context.Context, filter stint.ChangeFilter) error {
	if filter.Limit < 1 {
		return said(errInput, "invalid --limit %d: must be 1 to 1,000", filter.Limit)
	}
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		page, err := db.tasks().ListChanges(ctx, filter)
		if err != nil {
			return err
		}
		if len(page.Changes) == 0 {
			p.warn(unknownActions(ctx, db, false, filter.Actions...))
		}
		if p.json {
			err = printLines(p, page.Changes, newChangeJSON)
		} else {
			err = p.printChanges(ctx, db, page)
		}
		if err == nil && page.Next != "" {
			fmt.Fprintf(p.stderr, "there may be more: --after %s\n", page.Next)
		}
		return err
	})
}

func (p *program) printChanges(
	ctx context.Context, db *database, page stint.ChangePage,
) error {
	found := page.Changes
	if len(found) == 0 && page.Next != "" {
		fmt.Fprintln(p.stderr, "none among the changes that were looked at")
		return nil
	}
	if len(found) == 0 {
		p.printNone(ctx, db, "no changes are known")
		return nil
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"WHEN", "BY", "WHAT", "WHY"}}
	for i := range found {
		c := &found[i]
		rows = append(rows, []string{
			display.Relative(c.At, now), display.Text(c.By), display.Change(c),
			display.Text(c.Reason),
		})
	}
	return p.printTable(rows)
}

// shownChanges is how many changes show tells of.
const shownChanges = 20

// changesOf is what show tells of the changes of a task. A service of an older release does not
// know, and what has become of the task is worth showing without.
func (p *program) changesOf(
	ctx context.Context, db *database, id stint.TaskID,
) ([]stint.Change, error) {
	page, err := db.tasks().ListChanges(ctx, stint.ChangeFilter{ID: id, Limit: shownChanges})
	if connect.CodeOf(err) == connect.CodeUnimplemented && !errors.Is(err, stint.ErrSchemaVersion) {
		return nil, nil
	}
	return page.Changes, err
}

// gone adds to the error of a task that is not there who has changed it last, if that is known.
func (p *program) gone(ctx context.Context, db *database, id stint.TaskID, err error) error {
	if !errors.Is(err, stint.ErrTaskNotFound) {
		return err
	}
	changed, changesErr := p.changesOf(ctx, db, id)
	now, nowErr := db.now(ctx)
	if len(changed) == 0 || errors.Join(changesErr, nowErr) != nil {
		return err
	}
	return fmt.Errorf("%w; it was %s", err, display.ChangeOfTask(&changed[0],
		func(at time.Time) string { return display.Relative(at, now) }))
}

// changeLines are the changes of a task for people, the oldest first.
func changeLines(changed []stint.Change, now time.Time) []display.Line {
	var lines []display.Line
	for i := range changed {
		c := &changed[len(changed)-1-i]
		lines = append(lines, display.Line{
			Name: "change", Value: display.ChangeOfTask(c, func(at time.Time) string {
				return display.Absolute(at, now)
			}),
		})
	}
	return lines
}
