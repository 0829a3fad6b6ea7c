package command

import (
	"context"
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

With --json, an actor to a line: actor, actions, tasks (how many it owns), since.`,
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
		if len(actors) == 0 {
			p.printNone(ctx, db, "no actors")
			return nil
		}
		now, err := db.now(ctx)
		if err != nil {
			return err
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
