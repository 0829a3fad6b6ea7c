package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

// batchTasksMax is how many tasks that a filter has found are changed in one transaction.
const batchTasksMax = 1000

// A change is what a sub-command does to the tasks whose IDs it is given, or that pass its filters.
type change struct {
	verb, done string // such as abort, aborted
	// unchanged says why tasks that were named have stayed as they are; empty if none can.
	unchanged string
	// states are those that a filter without --state looks at.
	states []stint.State
	// skip leaves out a task that passes the filters.
	skip func(task *stint.TaskInfo, now time.Time) bool
	do   func(ctx context.Context, store *stint.Store, ids []stint.TaskID) (stint.Affected, error)

	filter filterFlags
	yes    bool
}

// command completes a sub-command that makes the change.
func (c *change) command(p *program, cmd *cobra.Command) *cobra.Command {
	cmd.Use = c.verb + " [ID...]"
	cmd.GroupID = groupTasks
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch filtered := c.filter.given(cmd); {
		case filtered && len(args) > 0:
			return errors.New("expected IDs or filters, not both")
		case filtered:
			return nil
		case len(args) == 0:
			return errors.New("expected task IDs, or filters such as --action")
		}
		return someIDs(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return p.changeFiltered(cmd.Context(), c)
		}
		return p.changeNamed(cmd.Context(), c, args)
	}
	c.filter.add(p, cmd)
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask before changing the tasks of a filter")
	return cmd
}

// changeNamed changes the tasks with the IDs given, all in one transaction.
func (p *program) changeNamed(ctx context.Context, c *change, args []string) error {
	ids := make([]stint.TaskID, len(args))
	for i, arg := range args {
		ids[i] = stint.TaskID(arg)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		affected, err := c.do(ctx, db.store, ids)
		if err != nil {
			return err
		}
		unchanged := slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			_, found := slices.BinarySearch(affected.Tasks, id)
			return found
		})
		return p.printAffected(c, affected, unchanged)
	})
}

// changeFiltered changes the tasks that pass the filters, in batches, after a question.
func (p *program) changeFiltered(ctx context.Context, c *change) error {
	filter, err := c.filter.filter()
	if err != nil {
		return err
	}
	if len(filter.States) == 0 {
		filter.States = c.states
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		ids, err := c.find(ctx, db, filter)
		if err != nil {
			return err
		}
		if len(ids) > 0 && !c.yes {
			if err := p.ask(fmt.Sprintf("%s %s", c.verb,
				readable.Count(int64(len(ids)), "task"))); err != nil {
				return err
			}
		}
		affected, err := c.inBatches(ctx, db.store, ids)
		if err != nil && len(affected.Tasks) == 0 {
			return err
		}
		return errors.Join(err, p.printAffected(c, affected, nil))
	})
}

// find returns the IDs of the tasks that pass the filter.
func (c *change) find(
	ctx context.Context, db *database, filter stint.Filter,
) ([]stint.TaskID, error) {
	now, err := db.now(ctx)
	if err != nil {
		return nil, err
	}
	var ids []stint.TaskID
	filter.Limit = listedTasksMax
	for {
		page, err := db.store.ListTasks(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			if c.skip == nil || !c.skip(&page.Tasks[i], now) {
				ids = append(ids, page.Tasks[i].ID)
			}
		}
		if page.Next == "" {
			return ids, nil
		}
		filter.After = page.Next
	}
}

// inBatches changes tasks batch by batch. Tasks that have left the store, or that others have begun
// since they were found, are left out.
func (c *change) inBatches(
	ctx context.Context, store *stint.Store, ids []stint.TaskID,
) (all stint.Affected, err error) {
	for batch := range slices.Chunk(ids, batchTasksMax) {
		for len(batch) > 0 {
			affected, err := c.do(ctx, store, batch)
			var named *stint.TaskError
			if errors.As(err, &named) && (errors.Is(err, stint.ErrTaskNotFound) ||
				errors.Is(err, stint.ErrTaskInProgress)) {
				batch = slices.DeleteFunc(slices.Clone(batch), func(id stint.TaskID) bool {
					return slices.Contains(named.IDs, id)
				})
				continue
			}
			if err != nil {
				return all, err
			}
			all.Tasks = append(all.Tasks, affected.Tasks...)
			all.Others += affected.Others
			break
		}
	}
	return all, nil
}

// ask asks the user of a terminal whether to go on. Where there is no terminal, it is an error.
func (p *program) ask(question string) error {
	if !isTerminal(p.stdin) {
		return said(errInput, "it would %s; add --yes to do it without a question", question)
	}
	fmt.Fprintf(p.stderr, "%s? [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(p.stdin, &answer); err != nil && !errors.Is(err, io.EOF) &&
		answer != "" {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return errDeclined
	}
	return nil
}

func (p *program) printAffected(
	c *change, affected stint.Affected, unchanged []stint.TaskID,
) error {
	if p.json {
		document := map[string]any{c.done: orEmpty(affected.Tasks), "others": affected.Others}
		if c.unchanged != "" {
			document["unchanged"] = orEmpty(unchanged)
		}
		return p.printJSON(document)
	}
	text := c.done + " " + readable.Count(int64(len(affected.Tasks)), "task")
	if affected.Others > 0 {
		text += " and " + readable.Count(int64(affected.Others), "dependent")
	}
	if err := p.printf("%s\n", text); err != nil {
		return err
	}
	if len(unchanged) == 0 {
		return nil
	}
	const shown = 10
	names := make([]string, 0, shown)
	for _, id := range unchanged[:min(shown, len(unchanged))] {
		names = append(names, readable.Text(string(id)))
	}
	if more := len(unchanged) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %s more", readable.Number(int64(more))))
	}
	_, err := fmt.Fprintf(p.stderr, "%s %s: %s\n",
		readable.Count(int64(len(unchanged)), "task"), c.unchanged, strings.Join(names, ", "))
	return err
}

// orEmpty makes a list that JSON shows as [] instead of null.
func orEmpty(ids []stint.TaskID) []stint.TaskID {
	if ids == nil {
		return []stint.TaskID{}
	}
	return ids
}
