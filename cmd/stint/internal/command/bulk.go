package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// command completes a sub-command that makes the change.
func (c *change) command(p *program, cmd *cobra.Command) *cobra.Command {
	c.batchMax = batchTasksMax
	cmd.Use = c.verb + " [ID...]"
	cmd.GroupID = groupTasks
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		filtered := c.filter.given(cmd)
		switch {
		case filtered && len(args) > 0:
			return errors.New("expected IDs or filters, not both")
		case !filtered && len(args) == 0:
			return errors.New("expected task IDs, or filters such as --action")
		case !filtered:
			for _, id := range args {
				if err := checkID(id); err != nil {
					return err
				}
			}
			return nil
		case !c.yes && !c.dryRun:
			return p.mayAsk()
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return p.changeNamed(cmd.Context(), c, args)
		}
		if p.topology != "" {
			return said(errInput, "filters choose tasks of one database or service; across "+
				"shards, name the tasks")
		}
		filter, err := c.filter.filter(cmd)
		if err != nil {
			return err
		}
		for _, state := range filter.States {
			if !slices.Contains(c.states, state) && !slices.Contains(c.also, state) {
				return said(errInput, "invalid --state %q: there is nothing to %s", state, c.verb)
			}
		}
		if len(filter.States) == 0 {
			filter.States = c.states
		}
		return p.changeFiltered(cmd.Context(), c, filter)
	}
	c.filter.add(p, cmd)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what the command would do")
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
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		store, err := c.changer(db)
		if err != nil {
			return err
		}
		affected, err := c.do(store, ctx, ids)
		if err != nil {
			if len(affected.Tasks) > 0 { // on some shards
				err = errors.Join(p.printAffected(c, affected), err)
			}
			return err
		}
		return p.printNamed(c, affected, without(ids, affected.Tasks))
	})
}

// changeFiltered changes the tasks that pass the filters after a question. It is one plan: what
// comes of it does not depend on how the tasks are cut into batches.
func (p *program) changeFiltered(ctx context.Context, c *change, filter stint.Filter) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		tasks, skipped, err := c.find(ctx, db, filter)
		if err != nil {
			return err
		}
		if skipped > 0 {
			fmt.Fprintf(p.stderr, "left out %s aborted because of others: retry these others\n",
				display.Count(int64(skipped), "task"))
		}
		if len(tasks) == 0 {
			p.warnFilter(ctx, db, &filter)
		}
		if c.dryRun {
			return p.tryFiltered(ctx, c, db, filter, tasks)
		}
		if len(tasks) > 0 && !c.yes {
			// Those are changed of which the user was told: not what has begun since.
			if err := p.confirm(ctx, c.question(ctx, db, filter, tasks, p.where(db))); err != nil {
				return err
			}
		}
		if c.yes { // nobody was told in which states they are
			for i := range tasks {
				tasks[i].State = ""
			}
		}
		came, err := c.inBatches(ctx, db, filter, tasks, func(done int) {
			fmt.Fprintf(p.stderr, "%s %s of %s\n", c.done, display.Number(int64(done)),
				display.Count(int64(len(tasks)), "task"))
		})
		if err != nil && len(came.Tasks) == 0 {
			return err
		}
		printErr := p.printFiltered(c, &came, len(tasks))
		switch left := came.left(len(tasks)); {
		case err != nil && ctx.Err() == nil:
			err = said(errPartly, "stopped after %s of %s: %v",
				display.Number(int64(len(came.Tasks))),
				display.Count(int64(len(tasks)), "task"), err)
		case err == nil && came.refusal != nil:
			err = said(errPartly, "left out %s: %v", display.Count(int64(left), "task"),
				came.refusal)
		case err == nil && left > 0:
			by := "by others"
			if db.client != nil { // which cannot tell
				by = "by others, or by this command where an answer was lost"
			}
			fmt.Fprintf(p.stderr, "left out %s, begun or changed meanwhile %s\n",
				display.Count(int64(left), "task"), by)
		}
		return errors.Join(printErr, err)
	})
}

// where says where tasks are.
func (p *program) where(db *database) string {
	if db.client != nil {
		return "of " + db.name()
	}
	return fmt.Sprintf("in the schema %q of %s", p.schema, db.name())
}
