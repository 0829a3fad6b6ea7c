package graphs

import (
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/layout"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/groups"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A picture is what a page draws of a network.
type picture struct {
	Width, Height int
	Boxes         []box
	Paths         []arrowPath
	Conditions    []conditionText
	Summary       string
}

// A box is a task, or several that are alike.
type box struct {
	X, Y   int
	Round  int
	Link   string
	Title  string // everything in full
	State  stint.State
	Name   string // shortened
	Action string
	Count  int // of tasks
	Said   string
	Counts []charts.Segment
	Asked  bool
}

type arrowPath struct {
	Path string
	Kind string // when, anyway, or empty
}

// A conditionText is what an arrow says.
type conditionText struct {
	X, Y int
	Text string
}

// boxesMax and arrowsMax are how many boxes and arrows a picture has.
const (
	boxesMax  = 400
	arrowsMax = 4000
)

// The sizes of a picture, in pixels.
const (
	boxWidth   = 216
	boxHeight  = 58
	margin     = 12
	arrow      = 8
	roundTask  = 6
	barWidth   = boxWidth - 24
	lettersMax = 27 // that fit into a box
)

func sizes() layout.Sizes {
	return layout.Sizes{
		BoxWidth: boxWidth, BoxHeight: boxHeight, BoxGap: 18, GapMin: 48, GapMax: 220,
	}
}

const summary = "The network as boxes and arrows, from left to right. " +
	"The list below names its tasks."

// The kinds of arrows: those with a condition, and those to tasks that run anyway.
const (
	kindWhen   = "when"
	kindAnyway = "anyway"
)

// conditionsOf are the conditions of the edges between groups, empty where these differ.
func (n *Net) conditionsOf(all *groups.Groups) []string {
	texts := make([]string, len(all.Edges))
	if len(n.conditions) == 0 {
		return texts
	}
	group := map[int]int{}
	for i, nodes := range all.Nodes {
		for _, node := range nodes {
			group[node] = i
		}
	}
	found := map[layout.Edge]string{}
	for _, e := range n.edges {
		between := layout.Edge{From: group[e.From], To: group[e.To]}
		if text, ok := found[between]; ok && text != n.conditions[e] {
			found[between] = ""
		} else {
			found[between] = n.conditions[e]
		}
	}
	for i, e := range all.Edges {
		texts[i] = found[e]
	}
	return texts
}

// pictureOf lays groups of tasks out. The links of boxes keep the way to show the network.
func (n *Net) pictureOf(all *groups.Groups, way string) *picture {
	conditions, room := n.conditionsOf(all), sizes()
	room.GapMin = max(room.GapMin, layout.RoomFor(conditions))
	laid := layout.Of(all.Count, all.Edges, room)
	p := &picture{
		Width: laid.Width + 2*margin, Height: laid.Height + 2*margin,
		Summary: summary,
	}
	for i, nodes := range all.Nodes {
		b := n.boxOf(nodes, way)
		b.X, b.Y = laid.Boxes[i].X+margin, laid.Boxes[i].Y+margin
		p.Boxes = append(p.Boxes, b)
	}
	for i, e := range all.Edges {
		anyway := true
		for _, node := range all.Nodes[e.To] {
			anyway = anyway && n.tasks[node].OnAbort == stint.RunAnyway
		}
		kind := ""
		switch {
		case conditions[i] != "":
			kind = kindWhen
			at := laid.Routes[i].Middle()
			p.Conditions = append(p.Conditions,
				conditionText{at.X + margin, at.Y + margin, conditions[i]})
		case anyway:
			kind = kindAnyway
		}
		p.Paths = append(p.Paths, arrowPath{laid.Routes[i].Path(0, arrow), kind})
	}
	return p
}

// boxOf is the box of some tasks that are alike.
func (n *Net) boxOf(nodes []int, way string) box {
	first := &n.tasks[nodes[0]]
	b := box{
		Count: len(nodes), State: first.State, Asked: slices.Contains(nodes, n.asked),
		Action: display.Cut(first.Action, lettersMax), Round: roundTask,
	}
	if first.Action == stint.Spontaneous {
		b.Action, b.Round = "spontaneous", boxHeight/2
	}
	if len(nodes) == 1 {
		b.Link = show.Link("task", "id", string(first.ID))
		b.Name = cutMiddle(display.Text(string(first.ID)))
		b.Said = show.StateName(first.State)
		if first.Tries > 1 {
			b.Said += ", try " + display.Number(int64(first.Tries))
		}
		b.Title = strings.Join([]string{
			display.Text(string(first.ID)), display.Text(first.Action), b.Said,
		}, "\n")
		return b
	}
	b.Link = show.Link("network", "id", string(n.id), "show", way,
		"of", string(first.ID)) + "#list"
	ids := make([]string, len(nodes))
	tasks := make([]stint.TaskInfo, len(nodes))
	for i, node := range nodes {
		ids[i], tasks[i] = string(n.tasks[node].ID), n.tasks[node]
	}
	times := " × " + display.Number(int64(len(nodes)))
	b.Name = cutMiddle(b.Action) + times
	b.Title = display.Text(first.Action) + times
	if prefix := groups.CommonPrefix(ids); prefix != "" {
		b.Title += "\n" + display.Text(prefix) + "…"
	}
	x := 0.0
	for _, count := range show.CountStates(tasks) {
		if count.Tasks == 0 {
			continue
		}
		width := charts.Fitting(count.Tasks, int64(len(nodes)), barWidth)
		b.Counts = append(b.Counts, charts.Segment{State: count.State, X: x, Width: width})
		x += width
		b.Title += "\n" + display.Number(count.Tasks) + " " + show.StateName(count.State)
	}
	b.State, b.Said = worst(tasks)
	return b
}

// worst is the state by which a box of several tasks is told, and how many of them are in it.
func worst(tasks []stint.TaskInfo) (stint.State, string) {
	counts := show.CountStates(tasks)
	for _, state := range []stint.State{
		stint.StateAborted, stint.StateInProgress, stint.StateReady, stint.StateScheduled,
		stint.StateBlocked, stint.StateCompleted, stint.StateSkipped,
	} {
		for _, count := range counts {
			if count.State == state && count.Tasks > 0 {
				return state, display.Number(count.Tasks) + " " + show.StateName(state)
			}
		}
	}
	return "", ""
}

// cutMiddle is text that fits into a box: without its middle, if it is long.
func cutMiddle(text string) string {
	runes := []rune(text)
	if len(runes) <= lettersMax {
		return text
	}
	left := lettersMax / 2
	return string(runes[:left]) + "…" + string(runes[len(runes)-(lettersMax-left-1):])
}
