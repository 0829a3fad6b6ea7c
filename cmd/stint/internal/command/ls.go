package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) listCommand() *cobra.Command {
	var chosen filterFlags
	var after string
	limit, newest := listedTasksDefault, false
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "tasks"},
		Short:      "List tasks",
		Long: `List tasks. A task is listed if it passes all the filters.

They come in the order of their IDs; with --newest, by the time of their insert to within
a minute, newest first. Otherwise, with --state or --actor and without --prefix, they come
state by state: in-progress, ready, scheduled, blocked, aborted, skipped, completed; those
that have ended newest first. In a large store a page reads at most 10,000 tasks, with
--body those of 16 MiB of bodies, and may then be short: --after continues it.

With --topology, tasks are listed shard by shard, in the order of the shards' names, with
those that join the shards (stint.*). --prefix SHARD/TEXT lists the tasks of one shard.

With --json, a task to a line (see: stint help json).`,
		Example: `  stint ls --state ready,in-progress --action copy
  stint ls --prefix export/main/ --limit 1000
  stint ls --state ready --older-than 1h
  stint ls --state aborted --message 'connection refused'
  stint ls --body '$.customer.id == 7 && $.tags[*] == "new"'
  stint ls --newest --limit 20
  stint ls --after export/main/0100
  stint ls --state aborted --json | jq -r .id`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := chosen.filter(cmd)
			if err != nil {
				return err
			}
			filter.After, filter.Limit = stint.Cursor(after), limit
			filter.NewestFirst = newest
			return p.list(cmd.Context(), filter)
		},
	}
	flags := cmd.Flags()
	chosen.add(p, cmd)
	flags.BoolVar(&newest, "newest", false, "list the tasks first that were inserted last")
	flags.IntVar(&limit, "limit", listedTasksDefault,
		"maximum number `n` of tasks (1 to "+display.Number(listedTasksMax)+")")
	flags.StringVar(&after, "after", "",
		"start after this `place`: an ID or, with --newest, --state or --actor, what the last "+
			"page named")
	completeBy(cmd, "after", p.taskIDs)
	return cmd
}

const (
	listedTasksDefault = 100
	listedTasksMax     = 10_000
)

func (p *program) list(ctx context.Context, filter stint.Filter) error {
	if filter.Limit < 1 || filter.Limit > listedTasksMax {
		return said(errInput, "invalid --limit %d: must be 1 to %s", filter.Limit,
			display.Number(listedTasksMax))
	}
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		page, err := db.tasks().ListTasks(ctx, filter)
		if err != nil {
			return err
		}
		if len(page.Tasks) == 0 && page.Next == "" && (db.shards == nil || !db.shards.lacks()) {
			p.warnFilter(ctx, db, &filter)
		}
		if p.json {
			if err := printLines(p, page.Tasks, p.newTaskJSON); err != nil {
				return err
			}
			return p.printMore(page)
		}
		if len(page.Tasks) == 0 && db.shards != nil && db.shards.lacks() {
			return p.printMore(page)
		}
		now, err := db.now(ctx)
		if err != nil {
			return err
		}
		if len(page.Tasks) == 0 && page.Next == "" {
			p.printNone(ctx, db, "no tasks")
			return nil
		}
		return p.printTasks(page, now)
	})
}

func (p *program) printTasks(page stint.TaskPage, now time.Time) error {
	tasks := page.Tasks
	if len(tasks) == 0 {
		if page.Next == "" {
			fmt.Fprintln(p.stderr, "no tasks")
		}
		return p.printMore(page)
	}
	paint := p.painter()
	rows := [][]string{{"ID", "ACTION", paint.State("STATE"), "TRIES", "WHEN", "ACTOR", "STATUS"}}
	for i := range tasks {
		task := &tasks[i]
		rows = append(rows, []string{
			display.Text(string(task.ID)), display.Text(task.Action),
			paint.State(string(task.State)), display.Tries(task), display.When(task, now),
			display.Text(string(task.Actor)), display.FirstWords(task.Status),
		})
	}
	if err := p.printTable(rows); err != nil {
		return err
	}
	return p.printMore(page)
}

// printMore says how to get the next page, if there may be one.
func (p *program) printMore(page stint.TaskPage) error {
	if page.Next == "" {
		return nil
	}
	_, err := fmt.Fprintf(p.stderr, "looked at %s, there may be more: --after %s\n",
		display.Count(int64(page.Looked), "task"), display.Quote(string(page.Next)))
	return err
}
