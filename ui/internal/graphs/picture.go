package graphs

import (
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/layout"
	"github.com/stint-tasks/stint/ui/internal/groups"
)

// A picture is what a page draws of a network.
type picture struct {
	Width, Height int
	Boxes         []box
	Paths         []arrowPath
	Conditions    []conditionText
	Summary       string
}

type arrowPath struct {
	Path  string
	Kind  string // when, anyway, or empty
	Chain bool   // it is one of the longest chain
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
func (p *part) conditionsOf(all *groups.Groups) []string {
	texts := make([]string, len(all.Edges))
	if len(p.net.conditions) == 0 {
		return texts
	}
	found := map[layout.Edge]string{}
	for _, e := range p.edges {
		text := p.net.conditions[layout.Edge{From: p.tasks[e.From], To: p.tasks[e.To]}]
		between := layout.Edge{From: all.Of[e.From], To: all.Of[e.To]}
		if known, ok := found[between]; ok && known != text {
			text = ""
		}
		found[between] = text
	}
	for i, e := range all.Edges {
		texts[i] = found[e]
	}
	return texts
}

// chainOf are the groups that a chain goes through, and the edges between these.
func (p *part) chainOf(
	all *groups.Groups, c *Chain,
) (through map[int]bool, edges map[layout.Edge]bool) {
	through, edges = map[int]bool{}, map[layout.Edge]bool{}
	if c == nil {
		return through, edges
	}
	place := make(map[int]int, len(p.tasks))
	for i, task := range p.tasks {
		place[task] = all.Of[i]
	}
	for i, task := range c.Tasks {
		group, isHere := place[task]
		if !isHere {
			continue
		}
		through[group] = true
		if i == 0 {
			continue
		}
		if before, isHere := place[c.Tasks[i-1]]; isHere {
			edges[layout.Edge{From: before, To: group}] = true
		}
	}
	return through, edges
}

// picture lays groups of tasks out. The links of boxes keep the way to show the network.
func (p *part) picture(all *groups.Groups, chain *Chain, way way) *picture {
	conditions, room := p.conditionsOf(all), sizes()
	through, chained := p.chainOf(all, chain)
	room.GapMin = max(room.GapMin, layout.RoomFor(conditions))
	laid := layout.Of(all.Count, all.Edges, room)
	drawn := &picture{
		Width: laid.Width + 2*margin, Height: laid.Height + 2*margin,
		Summary: summary,
	}
	for i, b := range p.boxes(all, way) {
		b.X, b.Y = laid.Boxes[i].X+margin, laid.Boxes[i].Y+margin
		b.Chain = through[i]
		drawn.Boxes = append(drawn.Boxes, b)
	}
	for i, e := range all.Edges {
		anyway := true
		for _, node := range all.Nodes[e.To] {
			anyway = anyway && p.net.tasks[p.tasks[node]].OnAbort == stint.RunAnyway
		}
		path := arrowPath{Path: laid.Routes[i].Path(0, arrow), Chain: chained[e]}
		switch {
		case conditions[i] != "":
			path.Kind = kindWhen
			at := laid.Routes[i].Middle()
			drawn.Conditions = append(drawn.Conditions,
				conditionText{at.X + margin, at.Y + margin, conditions[i]})
		case anyway:
			path.Kind = kindAnyway
		}
		drawn.Paths = append(drawn.Paths, path)
	}
	slices.SortStableFunc(drawn.Paths, func(a, b arrowPath) int { // the chain is above others
		switch {
		case a.Chain == b.Chain:
			return 0
		case b.Chain:
			return -1
		}
		return 1
	})
	return drawn
}
