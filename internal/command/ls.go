package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) listCommand() *cobra.Command {
	filter := stint.Filter{Limit: listedTasksDefault}
	var states []string
	var actor, after string
	var olderThan, newerThan age
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "tasks"},
		Short:      "List tasks",
		Long: `List tasks. A task is listed if it passes all the filters.

They come in the order of their IDs. With --state or --actor and without --prefix they come
state by state: in-progress, ready, scheduled, blocked, aborted, completed; aborted and
completed tasks newest first. In a large store a page looks at 10,000 tasks at most, and may
then be short: --after goes on.

With --json, a task to a line (see: stint help json).`,
		Example: `  stint ls --state ready,in-progress --action copy
  stint ls --prefix export/main/ --limit 1000
  stint ls --state ready --older-than 1h
  stint ls --after export/main/0100
  stint ls --state aborted --json | jq -r .id`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.Actor, filter.After = stint.ActorID(actor), stint.Cursor(after)
			filter.MinAge, filter.MaxAge = olderThan.ago, newerThan.ago
			for _, state := range states {
				if !slices.Contains(stateNames(), state) {
					return said(errInput, "invalid --state %q: must be one of %s", state,
						strings.Join(stateNames(), ", "))
				}
				filter.States = append(filter.States, stint.State(state))
			}
			return p.list(cmd.Context(), filter)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&filter.Actions, "action", nil,
		"only tasks with this `action` (repeatable)")
	flags.StringSliceVar(&states, "state", nil,
		"only tasks in these `states`: "+strings.Join(stateNames(), ", "))
	flags.StringVar(&filter.IDPrefix, "prefix", "", "only tasks whose IDs begin with this `text`")
	flags.StringVar(&actor, "actor", "", "only tasks that this `actor` owns, or owned last")
	flags.Var(&olderThan, "older-than",
		"only tasks inserted at least this `age` ago, such as 90m, 36h, 7d")
	flags.Var(&newerThan, "newer-than", "only tasks inserted at most this `age` ago")
	flags.IntVar(&filter.Limit, "limit", listedTasksDefault,
		"maximum number `n` of tasks (1 to "+readable.Number(listedTasksMax)+")")
	flags.StringVar(&after, "after", "",
		"start after this `place`: an ID or, with --state or --actor, what the last page named")
	completeBy(cmd, "action", p.actions)
	completeBy(cmd, "state", stateList)
	completeBy(cmd, "prefix", p.taskIDs)
	completeBy(cmd, "actor", p.actorNames)
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
			readable.Number(listedTasksMax))
	}
	if err := checkNames("action", filter.Actions...); err != nil {
		return err
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		page, err := db.store.ListTasks(ctx, filter)
		if err != nil {
			return err
		}
		if p.json {
			documents := make([]any, len(page.Tasks))
			for i, task := range tasksJSON(page.Tasks) {
				documents[i] = task
			}
			if err := p.printJSON(documents...); err != nil {
				return err
			}
			return p.printMore(page)
		}
		now, err := db.now(ctx)
		if err != nil {
			return err
		}
		return p.printTasks(page, now)
	})
}

func stateNames() []string {
	var names []string
	for _, state := range []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted,
	} {
		names = append(names, string(state))
	}
	return names
}
