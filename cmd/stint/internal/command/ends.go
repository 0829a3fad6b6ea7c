package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) endsCommand() *cobra.Command {
	var actions []string
	var from string
	var follow bool
	cmd := &cobra.Command{
		Use:        "ends",
		SuggestFor: []string{"tail", "events", "finished"},
		Short:      "List or follow the ends of tasks, in their order",
		Long: `List the tasks that completed, were aborted or were skipped, in the order of their
ends, as far as they are kept. With --follow, go on with those that end from now on, until
interrupted; while the database cannot be reached, wait for it. A task that ended while
another transaction was open that ends tasks is listed when that is over.

Standard error names the place behind what was listed: --from goes on there. So each end is
listed at least once, unless it was pruned meanwhile, which is an error.

With --json, a task to a line, with its result unless that has more than 1 MiB, and behind
each page of at most 1,000 tasks a line {"next": PLACE}. Keep that place when you have dealt
with the lines above it.

With --topology, the order is that of each shard. If one is away, those of the others are
listed; with --follow, those of that shard when it is back.`,
		Example: `  stint ends --action mail
  stint ends --from now --follow --json`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.ends(cmd.Context(), &endings{
				program: p, actions: actions, place: stint.Cursor(from), follow: follow,
			})
		},
	}
	cmd.Flags().StringArrayVar(&actions, "action", nil,
		"only tasks with this `action` (repeatable)")
	cmd.Flags().StringVar(&from, "from", "",
		"start behind this `place`, which an earlier call has named, or now")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with tasks that end from now on")
	completeBy(cmd, "action", p.actions)
	return cmd
}

// endings are the ends that a call lists.
type endings struct {
	*program
	actions []string
	place   stint.Cursor
	follow  bool
	listed  bool      // the place is one that the store has named
	away    bool      // the database could not be reached when last asked
	missing []string  // the shards that are away, as far as it was said
	until   time.Time // how far the place is
	told    time.Time // how far the place was when it was last printed
}

func (p *program) ends(ctx context.Context, e *endings) error {
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		began, err := db.now(ctx)
		if err != nil {
			return err
		}
		if len(e.actions) > 0 {
			p.warn(unknownActions(ctx, db, false, e.actions...))
		}
		err = e.list(ctx, db, began)
		if e.listed && e.place != "" && !p.json {
			fmt.Fprintf(p.stderr, "go on: --from %s\n", e.place)
		}
		return err
	})
}

// list lists the ends up to a time; for ever if the call follows.
func (e *endings) list(ctx context.Context, db *database, until time.Time) error {
	const pause = time.Second
	const looks = time.Second // for which a call looks that does not wait, if there is more to see
	wait := time.Duration(0)
	if e.follow {
		wait = 20 * time.Second
	}
	for {
		took := since()
		page, err := db.ends().Ends(ctx, e.actions, e.place, wait)
		if err != nil && e.follow && ctx.Err() == nil && exitCode(err) == exitUnreachable {
			if !e.away {
				fmt.Fprintf(e.stderr, "%s; trying again\n", display.Lines(err.Error()))
			}
			e.away = true
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
		if e.away {
			fmt.Fprintln(e.stderr, "it is back")
		}
		if e.follow && db.shards != nil {
			e.tellAway(db.shards)
		}
		over := page.Next == e.place || !page.Until.Before(until)
		if db.shards != nil { // whose places move one by one, each on a clock of its own
			over = over || took() < looks || page.Until.Equal(e.until)
		}
		e.away, e.until = false, page.Until
		if err := e.print(&page); err != nil {
			return err
		}
		e.listed, e.place = true, page.Next
		if !e.follow && len(page.Tasks) == 0 && over {
			return nil
		}
	}
}

// tellAway says which shards were away at the last call, and which are back.
func (e *endings) tellAway(of *sharded) {
	away := of.takeNoted()
	for _, shard := range slices.Sorted(maps.Keys(away)) {
		if !slices.Contains(e.missing, shard) {
			fmt.Fprintf(e.stderr, "shard %s is away: %s; trying again\n", shard,
				display.Lines(inFewerWords(away[shard]).Error()))
		}
	}
	for _, shard := range e.missing {
		if away[shard] == nil {
			fmt.Fprintf(e.stderr, "shard %s is back\n", shard)
		}
	}
	e.missing = slices.Sorted(maps.Keys(away))
}

func (e *endings) print(page *stint.EndPage) error {
	const often = time.Minute
	if e.json {
		var lines []any
		for i := range page.Tasks {
			lines = append(lines, e.newTaskJSON(&page.Tasks[i]))
		}
		if page.Next != "" && (len(lines) > 0 || page.Until.Sub(e.told) > often) {
			e.told = page.Until
			lines = append(lines, map[string]stint.Cursor{"next": page.Next})
		}
		return e.printJSON(lines...)
	}
	for i := range page.Tasks {
		if err := e.printf("%s\n", endLine(&page.Tasks[i])); err != nil {
			return err
		}
	}
	return nil
}

// endLine is the end of a task for people.
func endLine(task *stint.TaskInfo) string {
	line := task.FinishedAt.UTC().Format(time.RFC3339Nano) + " " + string(task.State)
	if task.AbortCause != "" {
		line += " (" + string(task.AbortCause) + ")"
	}
	line += " " + display.Text(task.Action) + " " + display.Text(string(task.ID))
	if said, _, _ := strings.Cut(task.Status, "\n"); said != "" {
		line += ": " + display.Text(said)
	}
	return line
}
