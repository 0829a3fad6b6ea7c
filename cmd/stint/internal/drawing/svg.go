// Package drawing writes networks of tasks as SVG pictures that need no other file.
package drawing

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/layout"
)

//go:embed style.css
var style string

// The parts of a picture.
const (
	head = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"
 xml:space="preserve">
<title>The network around %[3]s</title>
<style>
%s</style>
<defs>
<marker id="arrow" viewBox="0 0 %d 8" markerWidth="%[5]d" markerHeight="8" refY="4"
 markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L%[5]d 4L0 8z"/></marker>
<clipPath id="names"><rect width="%d" height="%d"/></clipPath>
</defs>
<rect class="page" width="100%%" height="100%%"/>
`
	cut = `<text x="%d" y="%d">The network goes on; these are the %s that are nearest.</text>
`
	edges = `<g class="edges" marker-end="url(#arrow)" transform="translate(%d %d)">
`
	condition = `<text class="condition" x="%d" y="%d" dy="4">%s</text>
`
	task = `<g class="task %s" transform="translate(%d %d)">
<title>%s</title>
`
	outline = `<rect class="asked" x="-%d" y="-%[1]d" width="%d" height="%d" rx="%d"/>
`
	box = `<rect width="%d" height="%d" rx="%d"/>
`
	names = `<g clip-path="url(#names)">
<text class="id" x="%d" y="%d">%s</text>
<text class="action" x="%[1]d" y="%[4]d">%s</text>
</g>
`
	state = `<text class="state" x="%d" y="%d">%s</text>
<text class="tries" x="%d" y="%[2]d">%[5]s</text>
</g>
`
)

// Lengths are in pixels.
const (
	margin     = 28
	boxHeight  = 66
	boxGap     = 20 // between boxes of a layer
	padding    = 14 // between a box and its text
	round      = 8
	arrow      = 9
	away       = 5 // the outline of the task that was asked for
	noteHeight = 32
	gapMin     = 64 // between layers
	gapMax     = 280
)

// WriteSVG writes a picture of the graph that needs no other file, with an outline around the task
// that was asked for. The same graph gives the same bytes.
//
// The error is that of the writer.
func WriteSVG(w io.Writer, graph *stint.Graph, asked stint.TaskID) error {
	p := newPicture(graph, asked)
	var svg strings.Builder
	fmt.Fprintf(&svg, head, p.width, p.height, escape(display.Text(string(asked))), style, arrow,
		p.box-1, stateTop)
	if graph.Cut {
		fmt.Fprintf(&svg, cut, margin, margin+4,
			display.Count(int64(len(graph.Tasks)), "task"))
	}
	p.writeEdges(&svg)
	for i := range graph.Tasks {
		p.writeTask(&svg, i)
	}
	svg.WriteString("</svg>\n")
	_, err := io.WriteString(w, svg.String())
	return err
}

// A picture is a graph with a place for everything.
type picture struct {
	*layout.Picture
	tasks              []stint.TaskInfo
	asked              int // the index of the task that was asked for
	edges              []layout.Edge
	conditions         []string // of the edges
	labels             []label
	box, width, height int
	top                int
}

func newPicture(graph *stint.Graph, asked stint.TaskID) *picture {
	index := make(map[stint.TaskID]int, len(graph.Tasks))
	p := &picture{tasks: graph.Tasks, top: margin}
	for i := range graph.Tasks {
		index[graph.Tasks[i].ID] = i
		p.labels = append(p.labels, newLabel(&graph.Tasks[i]))
		p.box = max(p.box, p.labels[i].width()+2*padding)
	}
	conditions := make(map[stint.Dependency]string, len(graph.Conditions))
	for _, c := range graph.Conditions {
		of := stint.Dependency{Predecessor: c.After, Dependent: c.Dependent}
		conditions[of] = c.String()
	}
	p.edges = make([]layout.Edge, len(graph.Dependencies))
	p.conditions = make([]string, len(p.edges))
	for i, dependency := range graph.Dependencies {
		p.edges[i] = layout.Edge{
			From: index[dependency.Predecessor], To: index[dependency.Dependent],
		}
		p.conditions[i] = conditions[dependency]
	}
	p.asked = slices.IndexFunc(p.tasks, func(task stint.TaskInfo) bool { return task.ID == asked })
	p.Picture = layout.Of(len(graph.Tasks), p.edges, layout.Sizes{
		BoxWidth: p.box, BoxHeight: boxHeight, BoxGap: boxGap, GapMax: gapMax,
		GapMin: max(gapMin, layout.RoomFor(p.conditions)),
	})
	if graph.Cut {
		p.top += noteHeight
	}
	p.width, p.height = p.Width+2*margin, p.Height+p.top+margin
	return p
}

// writeEdges draws a curve for each edge, level where it leaves and enters a layer.
func (p *picture) writeEdges(svg *strings.Builder) {
	fmt.Fprintf(svg, edges, margin, p.top)
	for i, edge := range p.edges {
		svg.WriteString("<path")
		switch {
		case p.conditions[i] != "":
			svg.WriteString(` class="when"`)
		case p.tasks[edge.To].OnAbort == stint.RunAnyway:
			svg.WriteString(` class="anyway"`)
		}
		awayFrom, awayTo := 0, arrow
		if edge.From == p.asked {
			awayFrom += away
		}
		if edge.To == p.asked {
			awayTo += away
		}
		fmt.Fprintf(svg, " d=\"%s\"/>\n", p.Routes[i].Path(awayFrom, awayTo))
	}
	svg.WriteString("</g>\n")
	for i, text := range p.conditions {
		if text != "" {
			at := p.Routes[i].Middle()
			fmt.Fprintf(svg, condition, margin+at.X, p.top+at.Y, escape(text))
		}
	}
}

// These are heights within a box: of lines of text, and of what is above the line of the state.
// The ID and the action are cut off there, so that no letter can reach into the state.
const (
	lineID     = 22
	lineAction = 39
	lineState  = 56
	stateTop   = 44
)

func (p *picture) writeTask(svg *strings.Builder, i int) {
	info, label := &p.tasks[i], &p.labels[i]
	corner := round
	if info.Action == stint.Spontaneous {
		corner = boxHeight / 2
	}
	fmt.Fprintf(svg, task, info.State, margin+p.Boxes[i].X, p.top+p.Boxes[i].Y,
		escape(label.title))
	if i == p.asked {
		fmt.Fprintf(svg, outline, away, p.box+2*away, boxHeight+2*away, corner+away)
	}
	fmt.Fprintf(svg, box, p.box, boxHeight, corner)
	fmt.Fprintf(svg, names, padding, lineID, escape(label.id), lineAction, escape(label.action))
	fmt.Fprintf(svg, state, padding, lineState, label.state, p.box-padding, label.tries)
}
