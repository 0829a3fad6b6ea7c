package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/drawing"
	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "explain ID",
		SuggestFor: []string{"why"},
		Short:      "Say why a task does not run",
		Long: `Say what a task waits for, until when it is scheduled, who owns it until when, how
many tries are left, whether anybody asks for its action, and because of which tasks it
was aborted.

With --json: task (see: stint help json), missing (how many tasks it waits for),
waits_for (these, 100 at most), because_of (the aborted tasks because of which it was
aborted, 100 at most; left out if there are none), tries_left (left out if there is no
limit), asked_at (when somebody last asked for the action, to half a minute; left out if
nobody has in a week), now.`,
		Example:           "  stint explain greet/world",
		GroupID:           groupTasks,
		Args:              oneID,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explain(cmd.Context(), stint.TaskID(args[0]))
		},
	}
}

type explanationJSON struct {
	Task      taskJSON   `json:"task"`
	Missing   int        `json:"missing"`
	WaitsFor  []taskJSON `json:"waits_for"`
	BecauseOf []taskJSON `json:"because_of,omitempty"`
	TriesLeft *int       `json:"tries_left,omitempty"`
	AskedAt   time.Time  `json:"asked_at,omitzero"`
	Now       time.Time  `json:"now"`
}

func (p *program) explain(ctx context.Context, id stint.TaskID) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		why, err := db.store.Explain(ctx, id)
		if err != nil {
			return err
		}
		if !p.json {
			return p.printf("%s\n", why)
		}
		document := explanationJSON{
			Task: newTaskJSON(&why.Task), Missing: why.Missing, WaitsFor: tasksJSON(why.WaitsFor),
			BecauseOf: tasksJSON(why.BecauseOf), AskedAt: utc(why.AskedAt), Now: utc(why.Now),
		}
		if why.TriesLeft >= 0 {
			document.TriesLeft = &why.TriesLeft
		}
		return p.printJSON(document)
	})
}

const (
	formatDOT     = "dot"
	formatMermaid = "mermaid"
	formatSVG     = "svg"
)

func (p *program) graphCommand() *cobra.Command {
	format, formats := formatDOT, []string{formatDOT, formatMermaid, formatSVG}
	cmd := &cobra.Command{
		Use:   "graph ID",
		Short: "Draw the network around a task",
		Long: `Draw everything that a task depends on or that depends on it, and so on, up to 10,000
tasks: in the language of Graphviz or of Mermaid, or as a picture, SVG, that browsers
show without either. Boxes are tasks, round ones spontaneous; the one that was asked for
has an outline. Dashed arrows lead to tasks that run even if what they wait for is
aborted. IDs are shortened; the mouse shows them in full.

With --json: tasks (see: stint help json), dependencies (after and run, the IDs of two
tasks), cut (true if the network goes on).`,
		Example: `  stint graph export/main/end --format svg > network.svg
  stint graph export/main/end --format mermaid
  stint graph export/main/end | dot -Tpdf > network.pdf`,
		GroupID:           groupTasks,
		Args:              oneID,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return fmt.Errorf("%w: --format %s: want %s, %s or %s", errInput,
					readable.Text(format), formatDOT, formatMermaid, formatSVG)
			}
			return p.graph(cmd.Context(), stint.TaskID(args[0]), format)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "write that `format`: dot, mermaid or svg")
	completeWith(cmd, "format", formats)
	return cmd
}

type graphJSON struct {
	Tasks        []taskJSON       `json:"tasks"`
	Dependencies []dependencyJSON `json:"dependencies"`
	Cut          bool             `json:"cut"`
}

type dependencyJSON struct {
	After stint.TaskID `json:"after"`
	Run   stint.TaskID `json:"run"`
}

func (p *program) graph(ctx context.Context, id stint.TaskID, format string) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		graph, err := db.store.Graph(ctx, id)
		if err != nil {
			return err
		}
		if p.json {
			document := graphJSON{
				Tasks: tasksJSON(graph.Tasks), Dependencies: []dependencyJSON{}, Cut: graph.Cut,
			}
			for _, dependency := range graph.Dependencies {
				document.Dependencies = append(document.Dependencies, dependencyJSON(dependency))
			}
			return p.printJSON(document)
		}
		if graph.Cut {
			fmt.Fprintf(p.stderr, "the network goes on; these are the %s that are nearest\n",
				readable.Count(int64(len(graph.Tasks)), "task"))
		}
		switch format {
		case formatMermaid:
			return graph.WriteMermaid(p.stdout)
		case formatSVG:
			return drawing.WriteSVG(p.stdout, graph, id)
		default:
			return graph.WriteDOT(p.stdout)
		}
	})
}

func (p *program) actorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "actors",
		SuggestFor: []string{"workers"},
		Short:      "List the registered actors that live",
		Long: `List the actors of all worker processes that live. One that is registered at several
stores comes once for each. That a process has died shows within a second.

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
			documents := make([]any, len(actors))
			for i, actor := range actors {
				documents[i] = actorJSON{actor.Actor, actor.Actions, actor.Tasks, utc(actor.Since)}
			}
			return p.printJSON(documents...)
		}
		if len(actors) == 0 {
			fmt.Fprintln(p.stderr, "no actors")
			return nil
		}
		now, err := db.now(ctx)
		if err != nil {
			return err
		}
		rows := [][]string{{"ACTOR", "TASKS", "SINCE", "ACTIONS"}}
		for _, actor := range actors {
			rows = append(rows, []string{
				readable.Text(string(actor.Actor)), strconv.Itoa(actor.Tasks),
				readable.Relative(actor.Since, now),
				readable.Text(strings.Join(actor.Actions, ", ")),
			})
		}
		return p.printTable(rows)
	})
}
