// Package graphs shows networks of tasks: as pictures, as lists, and what is beside a task.
package graphs

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/groups"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A View is a network as its page shows it.
type View struct {
	ID      stint.TaskID
	All     int
	Cut     bool
	Begun   bool // more of it is being read
	Partly  bool // there may be tasks that whoever asks may not see
	Counts  []show.Tally
	Chain   *Chain // nil if all tasks have ended
	Show    string
	Views   []choice
	Path    []choice // the groups that the picture is within, the largest first
	Picture *picture
	Canvas  *canvas // in the place of a picture with very many boxes
	TooMany int     // how many boxes there would be, and Arrows how many arrows
	Arrows  int
	List    list
	Whole   string // the address of all of the network
	Command string
	Now     time.Time
}

// A choice is a way to show a network.
type choice struct {
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
	// nearSteps is how far from the task those are that are near.
	nearSteps = 2
	// fewMax is of how many tasks a network is shown whole unless asked.
	fewMax = 60
	// pathMax is through how many groups one can come to a task.
	pathMax = 16
)

// bounds are what there is room for in the ways that show groups. In short, texts can be read where
// the whole picture is on the screen, or most of it.
func bounds(show string) groups.Bounds {
	if show == showFinely {
		return groups.Bounds{Apart: 200, Groups: boxesMax, Columns: 24}
	}
	return groups.Bounds{Apart: 24, Groups: fewMax, Columns: 12}
}

// NewView shows a network in the way that a query asks for.
func NewView(n *Net, query url.Values, now time.Time) View {
	data := View{
		ID: n.id, All: len(n.tasks), Cut: n.cut, Counts: show.CountStates(n.tasks),
		Chain: n.longest(), Show: query.Get("show"), Now: now,
	}
	data.Whole = n.link(way{show: data.Show})
	if !slices.Contains([]string{showAll, showNear, showAlike, showFinely}, data.Show) {
		data.Show = showAlike
		if len(n.tasks) <= fewMax {
			data.Show = showAll
		}
	}
	if word, ok := show.Arguments(string(n.id)); ok {
		data.Command = "stint graph --format svg " + word + " > network.svg"
	}
	data.Views = []choice{
		{Name: showAlike, Text: "In short"},
		{Name: showFinely, Text: "In detail"},
		{Name: showAll, Text: "All tasks"},
		{Name: showNear, Text: "Near this task"},
	}
	for i := range data.Views {
		data.Views[i].Link = n.link(way{show: data.Views[i].Name})
		data.Views[i].Chosen = data.Views[i].Name == data.Show
	}
	data.draw(n, query)
	return data
}

// draw adds the picture, and the list of the tasks in it.
func (d *View) draw(n *Net, query url.Values) {
	listed := n.all()
	switch d.Show {
	case showAlike, showFinely:
		d.drawGroups(n, query)
		return
	case showNear:
		near, _ := groups.Near(n.asked, len(n.tasks), n.edges, nearSteps, boxesMax)
		slices.Sort(near)
		listed = near
		d.drawEach(n.part(near))
	default:
		isLarge := len(n.tasks) > boxesMax || len(n.edges) > arrowsMax
		if isLarge && n.Fits() {
			d.Canvas = n.newCanvas(d.Chain)
		} else {
			d.drawEach(n.part(listed))
		}
	}
	d.list(n, listed, "", d.Whole, query)
}

func (d *View) drawEach(p *part) { d.picture(p, p.each(), way{show: d.Show}) }

// drawGroups adds the picture of groups: of the whole network, or of what is within a group that
// one has come to through others. A group without edges is listed, and drawn among the others.
func (d *View) drawGroups(n *Net, query url.Values) {
	w := way{show: d.Show}
	at, room := n.part(n.all()), bounds(d.Show)
	shown := at.grouped(room)
	listed, group := at.tasks, ""
	for _, of := range query["of"][:min(len(query["of"]), pathMax)] {
		i := slices.IndexFunc(at.tasks, func(task int) bool {
			return string(n.tasks[task].ID) == of
		})
		if i < 0 { // it has left the network
			break
		}
		within := n.part(at.within(shown.Nodes[shown.Of[i]]))
		listed, group = within.tasks, at.boxes(shown, w)[shown.Of[i]].Name
		if len(within.edges) == 0 {
			w.chosen = of
			break
		}
		w.path = append(w.path, of)
		d.Path = append(d.Path, choice{Text: group, Link: n.link(w)})
		at = within
		shown = at.closer(room)
	}
	d.picture(at, shown, w)
	here := d.Whole
	switch {
	case w.chosen != "":
		here = n.link(w, w.chosen)
	case len(w.path) > 0:
		here = n.link(w)
	}
	d.list(n, listed, group, here, query)
}

// picture adds the picture of some groups, unless that would be too large.
func (d *View) picture(p *part, all *groups.Groups, w way) {
	if all.Count > boxesMax || len(all.Edges) > arrowsMax {
		d.TooMany, d.Arrows = all.Count, len(all.Edges)
		return
	}
	d.Picture = p.picture(all, d.Chain, w)
}

// A list is tasks beside a picture.
type list struct {
	Group  string // the box of which they are; empty: all in the picture
	Here   string // the address of the list
	Counts []show.Tally
	State  stint.State // only tasks in this one are listed, unless it is empty
	Tasks  []row
	From   int // how many tasks are before these
	All    int // how many there are
	First  string
	Next   string
}

// A row is a task in a list.
type row struct {
	stint.TaskInfo
	Before, After int
}

// To is how many tasks there are up to the end of the page.
func (l list) To() int { return l.From + len(l.Tasks) }

// rowsMax is how many tasks are listed on a page.
const rowsMax = 100

// list adds the list of some tasks, those first that have failed or are under way.
func (d *View) list(n *Net, listed []int, group, here string, query url.Values) {
	d.List = list{Group: group, Here: here}
	tasks := make([]stint.TaskInfo, len(listed))
	for i, task := range listed {
		tasks[i] = n.tasks[task]
	}
	d.List.Counts = show.CountStates(tasks)
	if state := stint.State(query.Get("state")); slices.Contains(show.States(), state) {
		d.List.State = state
	}
	urgency := map[stint.State]int{}
	for i, state := range urgent() {
		urgency[state] = i
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(i int) bool {
		return d.List.State != "" && n.tasks[i].State != d.List.State
	})
	slices.SortStableFunc(listed, func(a, b int) int {
		return cmp.Compare(urgency[n.tasks[a].State], urgency[n.tasks[b].State])
	})
	address := func(from int) string {
		link := here
		if d.List.State != "" {
			link += "&state=" + string(d.List.State)
		}
		if from > 0 {
			link += "&from=" + strconv.Itoa(from)
		}
		return link + "#list"
	}
	if from, err := strconv.Atoi(query.Get("from")); err == nil && from > 0 && from < len(listed) {
		d.List.From, d.List.First = from, address(0)
	}
	d.List.All = len(listed)
	to := min(len(listed), d.List.From+rowsMax)
	if to < len(listed) {
		d.List.Next = address(to)
	}
	for _, i := range listed[d.List.From:to] {
		d.List.Tasks = append(d.List.Tasks, row{n.tasks[i], n.before[i], n.after[i]})
	}
}
