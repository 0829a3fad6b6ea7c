package graphs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/groups"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A box is a task, or several in a group.
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
	Counts []charts.Segment // the parts of the bar
	States []stateCount     // if the tasks are in several states
	Asked  bool
	Chosen bool // its tasks are listed
	Chain  bool // a task of the longest chain is in it
}

// A stateCount is how many tasks of a box are in a state, and where that is written.
type stateCount struct {
	State stint.State
	X     int
	Text  string
}

// A way is how a network is shown: one of the choices, with the tasks by whose groups one has come
// to the part that is shown, and the task whose group is listed.
type way struct {
	show   string
	path   []string
	chosen string
}

// link is the address of a network shown in a way, behind more tasks.
func (n *Net) link(w way, more ...string) string {
	pairs := []string{"id", string(n.id), "show", w.show}
	for _, of := range slices.Concat(w.path, more) {
		pairs = append(pairs, "of", of)
	}
	return show.Link("network", pairs...)
}

// boxes are the boxes of groups.
func (p *part) boxes(all *groups.Groups, w way) []box {
	inner := make([]int, all.Count)      // how many edges there are within a group
	branches := make([]bool, all.Count)  // two of them meet
	ahead := make([]bool, len(p.tasks))  // of a task, there is an edge to it
	behind := make([]bool, len(p.tasks)) // or from it
	for _, e := range p.edges {
		if group := all.Of[e.From]; group == all.Of[e.To] {
			inner[group]++
			branches[group] = branches[group] || behind[e.From] || ahead[e.To]
			behind[e.From], ahead[e.To] = true, true
		}
	}
	boxes := make([]box, all.Count)
	for group, nodes := range all.Nodes {
		within := &part{net: p.net, tasks: p.within(nodes)}
		tasks := within.infos()
		b := newBox(tasks, inner[group] == len(nodes)-1 && !branches[group])
		b.Asked = slices.Contains(within.tasks, p.net.asked)
		if len(nodes) > 1 {
			b.Link = p.net.link(w, string(tasks[0].ID))
			if inner[group] == 0 { // there is nothing more to see than a list
				b.Link += "#list"
			}
			b.Chosen = slices.ContainsFunc(tasks, func(task stint.TaskInfo) bool {
				return w.chosen != "" && string(task.ID) == w.chosen
			})
		}
		boxes[group] = b
	}
	return boxes
}

// newBox is the box of some tasks, which may form a chain.
func newBox(tasks []stint.TaskInfo, isChain bool) box {
	if len(tasks) == 1 {
		return boxOfOne(&tasks[0])
	}
	b := box{Count: len(tasks), Round: roundTask}
	if !slices.ContainsFunc(tasks, func(task stint.TaskInfo) bool {
		return task.Action != stint.Spontaneous
	}) {
		b.Round = boxHeight / 2
	}
	actions := actionsOf(tasks)
	before, behind := "", " × "+display.Number(int64(len(tasks)))
	if isChain {
		before, behind = "chain of "+display.Number(int64(len(tasks)))+" ", ""
	}
	b.Name = before + shortened(actions, lettersMax-len([]rune(before+behind))) + behind
	b.Title = before + strings.Join(actions, ", ") + behind
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = string(tasks[i].ID)
	}
	if prefix := groups.CommonPrefix(ids); prefix != "" {
		b.Title += "\n" + display.Text(prefix) + "…"
	}
	b.count(tasks)
	return b
}

func boxOfOne(task *stint.TaskInfo) box {
	b := box{
		Count: 1, State: task.State, Round: roundTask,
		Action: display.Cut(nameOf(task.Action), lettersMax),
		Link:   show.Link("task", "id", string(task.ID)),
		Name:   cutMiddle(display.Text(string(task.ID)), lettersMax),
		Said:   show.StateName(task.State),
	}
	if task.Action == stint.Spontaneous {
		b.Round = boxHeight / 2
	}
	if task.Tries > 1 {
		b.Said += ", try " + display.Number(int64(task.Tries))
	}
	b.Title = strings.Join([]string{
		display.Text(string(task.ID)), display.Text(task.Action), b.Said,
	}, "\n")
	return b
}

// nameOf names an action.
func nameOf(action string) string {
	if action == stint.Spontaneous {
		return "spontaneous"
	}
	return display.Text(action)
}

// actionsOf are the names of the actions of tasks, that of most of them first.
func actionsOf(tasks []stint.TaskInfo) (names []string) {
	counts := map[string]int{}
	for i := range tasks {
		name := nameOf(tasks[i].Action)
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(counts[b], counts[a])
	})
	return names
}

// shortened is as many names as have room, and how many there are besides.
func shortened(names []string, room int) string {
	const separator = ", "
	for most := len(names); most > 1; most-- {
		text := strings.Join(names[:most], separator)
		if most < len(names) {
			text += separator + "+" + display.Number(int64(len(names)-most))
		}
		if len([]rune(text)) <= room {
			return text
		}
	}
	behind := ""
	if len(names) > 1 {
		behind = separator + "+" + display.Number(int64(len(names)-1))
	}
	return cutMiddle(names[0], max(room-len(behind), 1)) + behind
}

// count says in which states the tasks of a box are: those first that matter most.
func (b *box) count(tasks []stint.TaskInfo) {
	counts := show.CountStates(tasks)
	x := 0.0
	for _, count := range counts {
		if count.Tasks == 0 {
			continue
		}
		width := charts.Fitting(count.Tasks, int64(len(tasks)), barWidth)
		b.Counts = append(b.Counts, charts.Segment{State: count.State, X: x, Width: width})
		x += width
		b.Title += "\n" + display.Number(count.Tasks) + " " + show.StateName(count.State)
	}
	at := 0
	for _, state := range urgent() {
		tasks := counts[slices.Index(show.States(), state)].Tasks
		if tasks == 0 {
			continue
		}
		text := display.Number(tasks)
		if b.State == "" {
			b.State, b.Said = state, text+" "+show.StateName(state)
		}
		const icon, letter, gap = 15, 7, 7
		if width := icon + letter*len(text); at+width <= barWidth {
			b.States = append(b.States, stateCount{state, at, text})
			at += width + gap
		} else {
			b.States[len(b.States)-1].Text += "…"
			break
		}
	}
	if len(b.States) == 1 {
		b.States = nil // there is room for a word
	}
}

// urgent are the states, those first of which one should know.
func urgent() []stint.State {
	return []stint.State{
		stint.StateAborted, stint.StateInProgress, stint.StateReady, stint.StateScheduled,
		stint.StateBlocked, stint.StateCompleted, stint.StateSkipped,
	}
}

// cutMiddle is text that fits into a box: without its middle, if it is long.
func cutMiddle(text string, lettersMax int) string {
	runes := []rune(text)
	if len(runes) <= lettersMax {
		return text
	}
	left := lettersMax / 2
	return string(runes[:left]) + "…" + string(runes[len(runes)-(lettersMax-left-1):])
}
