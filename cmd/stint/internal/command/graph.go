package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/drawing"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) graphCommand() *cobra.Command {
	format, formats := formatDOT, []string{formatDOT, formatMermaid, formatSVG}
	cmd := &cobra.Command{
		Use:   "graph ID",
		Short: "Draw the network around a task",
		Long: `Draw the predecessors and dependents of a task, then theirs, and so on, up to 10,000
tasks: in the language of Graphviz or of Mermaid, or as an SVG picture, which browsers
show without further tools. Boxes are tasks, rounded boxes spontaneous tasks; the task you
named is outlined. Dashed arrows lead to tasks that run even if a predecessor is aborted;
dotted ones have a condition, and say which: if aborted, if "heads", any of. IDs are
shortened; the mouse shows them in full. With --topology the network goes from shard to
shard; of a shard that is away, the tasks that others wait for are there, in the state
unknown.

With --json: tasks (see: stint help json), dependencies (predecessor and dependent, the
IDs of two tasks; where there is a condition also states and results, those that meet it,
and any, true where it is one of several of which one is enough), cut (true if the network
is larger).`,
		Example: `  stint graph export/main/end --format svg > network.svg
  stint graph export/main/end --format mermaid
  stint graph export/main/end | dot -Tpdf > network.pdf`,
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return said(errInput, "invalid --format %q: must be %s, %s or %s", format,
					formatDOT, formatMermaid, formatSVG)
			}
			return p.graph(cmd.Context(), stint.TaskID(args[0]), format)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "write this `format`: dot, mermaid or svg")
	completeWith(cmd, "format", formats)
	return cmd
}

const (
	formatDOT     = "dot"
	formatMermaid = "mermaid"
	formatSVG     = "svg"
)

type graphJSON struct {
	Tasks        []taskJSON       `json:"tasks"`
	Dependencies []dependencyJSON `json:"dependencies"`
	Cut          bool             `json:"cut"`
}

type dependencyJSON struct {
	Predecessor stint.TaskID `json:"predecessor"`
	Dependent   stint.TaskID `json:"dependent"`

	States  []stint.State `json:"states,omitempty"`
	Results []string      `json:"results,omitempty"`
	Any     bool          `json:"any,omitzero"`
}

// dependenciesJSON are the dependencies of a graph with their conditions.
func dependenciesJSON(graph *stint.Graph) []dependencyJSON {
	conditions := make(map[stint.Dependency]*stint.EdgeCondition, len(graph.Conditions))
	for i := range graph.Conditions {
		of := &graph.Conditions[i]
		conditions[stint.Dependency{Predecessor: of.After, Dependent: of.Dependent}] = of
	}
	documents := make([]dependencyJSON, len(graph.Dependencies))
	for i, d := range graph.Dependencies {
		documents[i] = dependencyJSON{Predecessor: d.Predecessor, Dependent: d.Dependent}
		if of := conditions[d]; of != nil {
			documents[i].States, documents[i].Results, documents[i].Any = of.States, of.Results,
				of.Any
		}
	}
	return documents
}

func (p *program) graph(ctx context.Context, id stint.TaskID, format string) error {
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		graph, err := db.tasks().Graph(ctx, id)
		if err != nil {
			return err
		}
		if p.json {
			document := graphJSON{
				Tasks: p.tasksJSON(graph.Tasks), Dependencies: dependenciesJSON(graph),
				Cut: graph.Cut,
			}
			return p.printJSON(document)
		}
		if graph.Cut {
			fmt.Fprintf(p.stderr, "the network goes on; these are the %s that are nearest\n",
				display.Count(int64(len(graph.Tasks)), "task"))
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
