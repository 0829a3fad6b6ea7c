package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/layout"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type networkData struct {
	ID        stint.TaskID
	All       int
	Cut       bool
	Counts    []show.Tally
	Show      string
	Views     []viewChoice
	Picture   *picture
	Canvas    *canvas // in the place of a picture with very many boxes
	TooMany   int     // how many boxes there would be, and Arrows how many arrows
	Arrows    int
	Tasks     []networkRow
	TasksMore int
	Group     string      // the tasks of one box are listed: its action
	State     stint.State // only tasks in this one are listed, unless it is empty
	Whole     string      // the address of the list of all
	Command   string
	Now       time.Time
}

// A viewChoice is a way to show a network.
type viewChoice struct {
	Name, Text, Link string
	Chosen           bool
}

// The ways.
const (
	showAll    = "all"    // a box for each task
	showAlike  = "alike"  // a box for all tasks that do the same at the same place
	showFinely = "finely" // so, too, but fewer are taken for the same
	showNear   = "near"   // what is before and behind the task
)

const (
	// boxesMax is how many boxes a picture has, and nearSteps how far from the task those are that
	// are near.
	boxesMax  = 400
	arrowsMax = 4000
	// canvasArrowsMax is how many arrows are laid out for a picture on a canvas.
	canvasArrowsMax = 50_000
	nearSteps       = 2
	// alikeMax and finelyMax are up to how many boxes tasks are told apart that do the same at the
	// same place, and fewMax of how many tasks a network is shown whole unless asked.
	alikeMax  = 24
	finelyMax = 200
	fewMax    = 60
	// networkRowsMax is how many tasks of a network are listed.
	networkRowsMax = 100
)

// A networkRow is a task in the list beside a picture.
type networkRow struct {
	stint.TaskInfo
	Before, After int
}

// A net is a network by numbers.
type net struct {
	tasks         []stint.TaskInfo
	edges         []layout.Edge
	asked         int
	before, after []int // how many edges lead to and from each task
	// conditions are how tasks must end for others to start, by edge.
	conditions map[layout.Edge]string
}

// newNet returns a network. mayReadBodies says whether its conditions may be told with their
// results.
func newNet(graph *stint.Graph, id stint.TaskID, mayReadBodies bool) *net {
	n := &net{
		tasks: graph.Tasks, asked: -1,
		before: make([]int, len(graph.Tasks)), after: make([]int, len(graph.Tasks)),
		conditions: make(map[layout.Edge]string, len(graph.Conditions)),
	}
	index := make(map[stint.TaskID]int, len(graph.Tasks))
	for i := range graph.Tasks {
		index[graph.Tasks[i].ID] = i
		if graph.Tasks[i].ID == id {
			n.asked = i
		}
	}
	for _, c := range graph.Conditions {
		from, isThere := index[c.After]
		to, isThereToo := index[c.Dependent]
		if isThere && isThereToo {
			n.conditions[layout.Edge{From: from, To: to}] = textOf(c, mayReadBodies)
		}
	}
	for _, d := range graph.Dependencies {
		from, isThere := index[d.Predecessor]
		to, isThereToo := index[d.Dependent]
		if isThere && isThereToo {
			n.edges = append(n.edges, layout.Edge{From: from, To: to})
			n.after[from]++
			n.before[to]++
		}
	}
	return n
}

// textOf says a condition, with its results only to those who may read bodies.
func textOf(c stint.EdgeCondition, mayReadBodies bool) string {
	if len(c.Results) > 0 && !mayReadBodies {
		c.Results = []string{"…"}
	}
	return c.String()
}

// network shows the network of a task as a picture, and as a list.
func network(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	id := stint.TaskID(query.Get("id"))
	graph, err := h.asked.graphs.get(r.Context(), id)
	if err != nil {
		return view{}, err
	}
	n := newNet(graph, id, r.may(ReadBodies))
	data := networkData{
		ID: id, All: len(n.tasks), Cut: graph.Cut, Counts: show.CountStates(n.tasks),
		Show: query.Get("show"), Now: r.now,
		Whole: show.Link("network", "id", string(id), "show", query.Get("show")),
	}
	if state := stint.State(query.Get("state")); slices.Contains(show.States(), state) {
		data.State = state
	}
	if !slices.Contains([]string{showAll, showNear, showAlike, showFinely}, data.Show) {
		data.Show = showAlike
		if len(n.tasks) <= fewMax {
			data.Show = showAll
		}
	}
	if word, ok := show.Argument(string(id)); ok {
		data.Command = "stint graph --format svg " + word + " > network.svg"
	}
	data.Views = []viewChoice{
		{Name: showAlike, Text: "In short"},
		{Name: showFinely, Text: "In detail"},
		{Name: showAll, Text: "All tasks"},
		{Name: showNear, Text: "Near this task"},
	}
	for i := range data.Views {
		data.Views[i].Link = show.Link("network", "id", string(id), "show", data.Views[i].Name)
		data.Views[i].Chosen = data.Views[i].Name == data.Show
	}
	listed := n.draw(&data, query.Get("of"))
	n.list(&data, listed)
	return view{name: "network", title: "Network of " + show.Text(id), data: data}, nil
}

// draw adds the picture, and returns the tasks to list: those of the box that the task of this ID
// is in, or all in the picture.
func (n *net) draw(data *networkData, of string) []int {
	data.Counts = show.CountStates(n.tasks)
	all := make([]int, len(n.tasks))
	for i := range all {
		all[i] = i
	}
	switch data.Show {
	case showAlike, showFinely:
		most := alikeMax
		if data.Show == showFinely {
			most = finelyMax
		}
		labels := make([]string, len(n.tasks))
		for i := range n.tasks {
			labels[i] = n.tasks[i].Action
		}
		groups := layout.Alike(labels, n.edges, most)
		if !n.picture(groups, data) {
			return all
		}
		if i := slices.IndexFunc(n.tasks, func(task stint.TaskInfo) bool {
			return string(task.ID) == of
		}); i >= 0 {
			data.Group = n.tasks[i].Action
			return groups.Nodes[groups.Of[i]]
		}
		return all
	case showNear:
		near, _ := layout.Near(n.asked, len(n.tasks), n.edges, nearSteps, boxesMax)
		slices.Sort(near)
		n.picture(n.only(near), data)
		return near
	}
	isLarge := len(n.tasks) > boxesMax || len(n.edges) > arrowsMax
	if isLarge && len(n.edges) <= canvasArrowsMax {
		data.Canvas = n.newCanvas(data.ID)
		return all
	}
	n.picture(n.only(all), data)
	return all
}

// picture adds the picture of some groups, unless that would be too large.
func (n *net) picture(groups *layout.Groups, data *networkData) bool {
	if groups.Count > boxesMax || len(groups.Edges) > arrowsMax {
		data.TooMany, data.Arrows = groups.Count, len(groups.Edges)
		return false
	}
	data.Picture = n.pictureOf(groups, data)
	return true
}

// only are some tasks, a group for each.
func (n *net) only(some []int) *layout.Groups {
	groups := &layout.Groups{Count: len(some)}
	place := make(map[int]int, len(some))
	for i, task := range some {
		place[task] = i
		groups.Nodes = append(groups.Nodes, []int{task})
	}
	for _, e := range n.edges {
		from, isThere := place[e.From]
		to, isThereToo := place[e.To]
		if isThere && isThereToo {
			groups.Edges = append(groups.Edges, layout.Edge{From: from, To: to})
		}
	}
	return groups
}

// list adds the list of some tasks, those first that have failed or are under way.
func (n *net) list(data *networkData, listed []int) {
	urgency := map[stint.State]int{
		stint.StateAborted: 0, stint.StateInProgress: 1, stint.StateReady: 2,
		stint.StateScheduled: 3, stint.StateBlocked: 4, stint.StateCompleted: 5,
		stint.StateSkipped: 6,
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(i int) bool {
		return data.State != "" && n.tasks[i].State != data.State
	})
	slices.SortStableFunc(listed, func(a, b int) int {
		return cmp.Compare(urgency[n.tasks[a].State], urgency[n.tasks[b].State])
	})
	data.TasksMore = max(len(listed)-networkRowsMax, 0)
	for _, i := range listed[:min(len(listed), networkRowsMax)] {
		data.Tasks = append(data.Tasks, networkRow{n.tasks[i], n.before[i], n.after[i]})
	}
}

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

// The kinds of arrows: those with a condition, and those to tasks that run anyway.
const (
	kindWhen   = "when"
	kindAnyway = "anyway"
)

// A conditionText is what an arrow says.
type conditionText struct {
	X, Y int
	Text string
}

// conditionsOf are the conditions of the edges between groups, empty where these differ.
func (n *net) conditionsOf(groups *layout.Groups) []string {
	texts := make([]string, len(groups.Edges))
	if len(n.conditions) == 0 {
		return texts
	}
	group := map[int]int{}
	for i, nodes := range groups.Nodes {
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
	for i, e := range groups.Edges {
		texts[i] = found[e]
	}
	return texts
}

// pictureOf lays groups of tasks out.
func (n *net) pictureOf(groups *layout.Groups, data *networkData) *picture {
	conditions, room := n.conditionsOf(groups), sizes()
	room.GapMin = max(room.GapMin, layout.RoomFor(conditions))
	laid := layout.Of(groups.Count, groups.Edges, room)
	p := &picture{
		Width: laid.Width + 2*margin, Height: laid.Height + 2*margin,
		Summary: summary,
	}
	for i, nodes := range groups.Nodes {
		b := n.boxOf(nodes, data)
		b.X, b.Y = laid.Boxes[i].X+margin, laid.Boxes[i].Y+margin
		p.Boxes = append(p.Boxes, b)
	}
	for i, e := range groups.Edges {
		anyway := true
		for _, node := range groups.Nodes[e.To] {
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
func (n *net) boxOf(nodes []int, data *networkData) box {
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
	b.Link = show.Link("network", "id", string(data.ID), "show", data.Show,
		"of", string(first.ID)) + "#list"
	ids := make([]string, len(nodes))
	tasks := make([]stint.TaskInfo, len(nodes))
	for i, node := range nodes {
		ids[i], tasks[i] = string(n.tasks[node].ID), n.tasks[node]
	}
	times := " × " + display.Number(int64(len(nodes)))
	b.Name = cutMiddle(b.Action) + times
	b.Title = display.Text(first.Action) + times
	if prefix := layout.CommonPrefix(ids); prefix != "" {
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
