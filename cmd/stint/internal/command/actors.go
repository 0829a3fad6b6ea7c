package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) actorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "actors",
		SuggestFor: []string{"workers"},
		Short:      "List the registered live actors",
		Long: `List the actors of all live worker processes. An actor that is registered at several
stores is listed once for each. A process that dies is gone from the list within a second.
Others that own tasks are named on stderr: if one of these is gone, nobody notices before its
leases expire.

With --json, an actor to a line: actor, actions, tasks (how many it owns; 0 if a service does
not tell you), since.`,
		Example: "  stint actors",
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.actors(cmd.Context())
		},
	}
}

type actorJSON struct {
	Actor   stint.ActorID `json:"actor"`
	Actions []string      `json:"actions"`
	Tasks   int           `json:"tasks"`
	Since   time.Time     `json:"since"`
}

// unwatchedMax is how many tasks are looked at whose owners nobody watches.
const unwatchedMax = 1000

// tellUnwatched tells of owners of tasks whose processes nobody watches.
func (p *program) tellUnwatched(tasks []stint.TaskInfo, now time.Time) {
	var owners []stint.ActorID
	owned, until := map[stint.ActorID]int{}, map[stint.ActorID]time.Time{}
	for i := range tasks {
		task := &tasks[i]
		if owned[task.Actor]++; owned[task.Actor] == 1 { // its last lease comes first
			owners, until[task.Actor] = append(owners, task.Actor), task.LeaseUntil
		}
	}
	for _, owner := range owners {
		lease := "whose lease does not expire"
		if at := until[owner]; !at.IsZero() {
			lease = "the last lease expires " + display.Relative(at, now)
		}
		count := display.Count(int64(owned[owner]), "task")
		if len(tasks) >= unwatchedMax {
			count = "at least " + count
		}
		fmt.Fprintf(p.stderr, "nobody watches the process of %s, which owns %s: %s\n",
			display.Text(string(owner)), count, lease)
	}
}

func (p *program) actors(ctx context.Context) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		actors, err := db.store.ListActors(ctx)
		if err != nil {
			return err
		}
		if p.json {
			return printLines(p, actors, func(actor *stint.ActorInfo) actorJSON {
				return actorJSON{actor.Actor, actor.Actions, actor.Tasks, utc(actor.Since)}
			})
		}
		now, err := db.now(ctx)
		if err != nil {
			return err
		}
		trouble, err := db.store.Problems(ctx, unwatchedMax)
		if err != nil {
			return err
		}
		defer p.tellUnwatched(trouble.Unwatched, now)
		if len(actors) == 0 {
			p.printNone(ctx, db, "no actors")
			return nil
		}
		all := true
		if db.client != nil {
			if all, err = db.client.ReadsAll(ctx); err != nil {
				return err
			}
		}
		owned := func(tasks int) string {
			if !all { // a service does not tell
				return "-"
			}
			return display.Number(int64(tasks))
		}
		rows := [][]string{{"ACTOR", "TASKS", "SINCE", "ACTIONS"}}
		for _, actor := range actors {
			rows = append(rows, []string{
				display.Text(string(actor.Actor)), owned(actor.Tasks),
				display.Relative(actor.Since, now),
				display.Text(strings.Join(actor.Actions, ", ")),
			})
		}
		return p.printTable(rows)
	})
}
