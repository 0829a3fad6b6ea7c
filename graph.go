package stint

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Graph is a network of tasks at one instant.
type Graph struct {
	Tasks        []TaskInfo   // about in the order of insertion, without bodies and results
	Dependencies []Dependency // those between these tasks
	Cut          bool         // the network goes on beyond these tasks
}

// graphTasksMax is how many tasks a graph holds.
const graphTasksMax = 10_000

// Graph returns the network around a task: everything that it depends on or that depends on it, and
// so on, finished tasks included until they are pruned. Of a network of more than 10,000 tasks it
// returns the nearest. If there is no such task, the error is [ErrTaskNotFound], in a [*TaskError].
func (s *Store) Graph(ctx context.Context, id TaskID) (*Graph, error) {
	graph, err := s.graph(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	return graph, nil
}

func (s *Store) graph(ctx context.Context, id TaskID) (*Graph, error) {
	if err := checkText("task ID", string(id), idBytesMax); err != nil {
		return nil, err
	}
	graph := &Graph{}
	names := map[int64]TaskID{}
	var before [][]int64 // the predecessors of each task
	err := s.run(ctx, step{
		name: "graph_tasks", args: []any{string(id), graphTasksMax},
		read: func(rows pgx.Rows) error {
			graph, before = &Graph{}, nil // drops an answer that was cut off
			for rows.Next() {
				var key int64
				var predecessors []int64
				info, err := readInfo(rows, &key, &predecessors, &graph.Cut)
				if err != nil {
					return err
				}
				names[key] = info.ID
				graph.Tasks = append(graph.Tasks, info)
				before = append(before, predecessors)
			}
			return rows.Err()
		},
	})
	if err != nil {
		return nil, err
	}
	if len(graph.Tasks) == 0 {
		return nil, &TaskError{IDs: []TaskID{id}, Err: ErrTaskNotFound}
	}
	for i, predecessors := range before {
		slices.Sort(predecessors)
		for _, key := range predecessors {
			if after, ok := names[key]; ok {
				graph.Dependencies = append(graph.Dependencies,
					Dependency{Predecessor: after, Dependent: graph.Tasks[i].ID})
			}
		}
	}
	return graph, nil
}

// colours are how a task in a state is drawn.
type colours struct{ fill, line string }

func (s State) colours() colours {
	switch s {
	case StateReady:
		return colours{"#fff3bf", "#e67700"}
	case StateInProgress:
		return colours{"#d0ebff", "#1971c2"}
	case StateCompleted:
		return colours{"#d3f9d8", "#2f9e44"}
	case StateAborted:
		return colours{"#ffe3e3", "#c92a2a"}
	case StateBlocked, StateScheduled:
	}
	return colours{"#f1f3f5", "#868e96"}
}

// WriteDOT writes the graph in the language of Graphviz: tasks as boxes, spontaneous ones as
// ellipses, coloured by state.
func (g *Graph) WriteDOT(w io.Writer) error {
	var text strings.Builder
	text.WriteString("digraph tasks {\n\trankdir=LR\n\tnode [shape=box, style=filled]\n")
	for i, task := range g.Tasks {
		shape := ""
		if task.Action == Spontaneous {
			shape = ", shape=ellipse"
		}
		colours := task.State.colours()
		fmt.Fprintf(&text, "\tn%d [label=\"%s\", fillcolor=%q, color=%q%s]\n", i,
			escapeDOT.Replace(task.label()), colours.fill, colours.line, shape)
	}
	g.writeEdges(&text, "\tn%d -> n%d\n")
	text.WriteString("}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

//nolint:gochecknoglobals // constants, but for the language
var (
	escapeDOT     = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", " ")
	escapeMermaid = strings.NewReplacer("#", "#35;", `"`, "#quot;", "&", "#amp;", "<", "#lt;",
		">", "#gt;", "`", "#96;", "\n", "<br/>", "\r", " ")
)

// WriteMermaid writes the graph in the language of Mermaid, which many sites draw in Markdown.
func (g *Graph) WriteMermaid(w io.Writer) error {
	var text strings.Builder
	text.WriteString("flowchart LR\n")
	for i, task := range g.Tasks {
		open, shut := `["`, `"]`
		if task.Action == Spontaneous {
			open, shut = `(["`, `"])`
		}
		fmt.Fprintf(&text, "    n%d%s%s%s:::%s\n", i, open,
			escapeMermaid.Replace(task.label()), shut, task.State)
	}
	g.writeEdges(&text, "    n%d --> n%d\n")
	for _, state := range []State{
		StateBlocked, StateScheduled, StateReady, StateInProgress, StateCompleted, StateAborted,
	} {
		colours := state.colours()
		fmt.Fprintf(&text, "    classDef %s fill:%s,stroke:%s\n", state, colours.fill, colours.line)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (g *Graph) writeEdges(text *strings.Builder, format string) {
	nodes := make(map[TaskID]int, len(g.Tasks))
	for i, task := range g.Tasks {
		nodes[task.ID] = i
	}
	for _, dependency := range g.Dependencies {
		fmt.Fprintf(text, format, nodes[dependency.Predecessor], nodes[dependency.Dependent])
	}
}

// label is what a drawing says of the task.
func (info *TaskInfo) label() string {
	lines := []string{string(info.ID)}
	if info.Action != Spontaneous {
		lines = append(lines, info.Action)
	}
	state := string(info.State)
	if info.AbortCause != "" {
		state += ", " + string(info.AbortCause)
	}
	return strings.Join(append(lines, state), "\n")
}
