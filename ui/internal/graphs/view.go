// Package graphs shows networks of tasks: as pictures, as lists, and what is beside a task.
package graphs

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/groups"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A View is a network as its page shows it.
type View struct {
	ID        stint.TaskID
	All       int
	Cut       bool
	Counts    []show.Tally
	Show      string
	Views     []choice
	Picture   *picture
	Canvas    *canvas // in the place of a picture with very many boxes
	TooMany   int     // how many boxes there would be, and Arrows how many arrows
	Arrows    int
	Tasks     []row
	TasksMore int
	Group     string      // the tasks of one box are listed: its action
	State     stint.State // only tasks in this one are listed, unless it is empty
	Whole     string      // the address of the list of all
	Command   string
	Now       time.Time
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
	// networkRowsMax is how many tasks of a network are listed.
	networkRowsMax = 100
)

// A row is a task in the list beside a picture.
type row struct {
	stint.TaskInfo
	Before, After int
}

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
		Show: query.Get("show"), Now: now,
		Whole: show.Link("network", "id", string(n.id), "show", query.Get("show")),
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
	if word, ok := show.Argument(string(n.id)); ok {
		data.Command = "stint graph --format svg " + word + " > network.svg"
	}
	data.Views = []choice{
		{Name: showAlike, Text: "In short"},
		{Name: showFinely, Text: "In detail"},
		{Name: showAll, Text: "All tasks"},
		{Name: showNear, Text: "Near this task"},
	}
	for i := range data.Views {
		data.Views[i].Link = show.Link("network", "id", string(n.id), "show", data.Views[i].Name)
		data.Views[i].Chosen = data.Views[i].Name == data.Show
	}
	data.list(n, data.draw(n, query.Get("of")))
	return data
}

// draw adds the picture, and returns the tasks to list: those of the box that the task of this ID
// is in, or all in the picture.
func (d *View) draw(n *Net, of string) []int {
	all := make([]int, len(n.tasks))
	for i := range all {
		all[i] = i
	}
	switch d.Show {
	case showAlike, showFinely:
		labels := make([]string, len(n.tasks))
		for i := range n.tasks {
			labels[i] = n.tasks[i].Action
		}
		found := groups.Of(labels, n.edges, bounds(d.Show))
		d.picture(n, found)
		if i := slices.IndexFunc(n.tasks, func(task stint.TaskInfo) bool {
			return string(task.ID) == of
		}); i >= 0 {
			d.Group = n.tasks[i].Action
			return found.Nodes[found.Of[i]]
		}
		return all
	case showNear:
		near, _ := groups.Near(n.asked, len(n.tasks), n.edges, nearSteps, boxesMax)
		slices.Sort(near)
		d.picture(n, n.only(near))
		return near
	}
	isLarge := len(n.tasks) > boxesMax || len(n.edges) > arrowsMax
	if isLarge && n.Fits() {
		d.Canvas = n.newCanvas()
		return all
	}
	d.picture(n, n.only(all))
	return all
}

// picture adds the picture of some groups, unless that would be too large.
func (d *View) picture(n *Net, all *groups.Groups) {
	if all.Count > boxesMax || len(all.Edges) > arrowsMax {
		d.TooMany, d.Arrows = all.Count, len(all.Edges)
		return
	}
	d.Picture = n.pictureOf(all, d.Show)
}

// list adds the list of some tasks, those first that have failed or are under way.
func (d *View) list(n *Net, listed []int) {
	urgency := map[stint.State]int{
		stint.StateAborted: 0, stint.StateInProgress: 1, stint.StateReady: 2,
		stint.StateScheduled: 3, stint.StateBlocked: 4, stint.StateCompleted: 5,
		stint.StateSkipped: 6,
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(i int) bool {
		return d.State != "" && n.tasks[i].State != d.State
	})
	slices.SortStableFunc(listed, func(a, b int) int {
		return cmp.Compare(urgency[n.tasks[a].State], urgency[n.tasks[b].State])
	})
	d.TasksMore = max(len(listed)-networkRowsMax, 0)
	for _, i := range listed[:min(len(listed), networkRowsMax)] {
		d.Tasks = append(d.Tasks, row{n.tasks[i], n.before[i], n.after[i]})
	}
}
