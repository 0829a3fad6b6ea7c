package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A panel is one of the lists.
type panel int

const (
	panelActions panel = iota
	panelTasks
	panelActors
	panels
)

// A row is a line of a list.
type row struct {
	key    string // What the row is about; no other row of the list has it.
	filter string // The filter that shows the tasks that the row is about.
	cells  func() []string
	task   *stint.TaskInfo // nil unless it is about one.
}

func (p panel) orders() []string {
	switch p {
	case panelActions:
		return []string{"name", "ready", "oldest", "in progress", "tries/s", "retries/s", "aborted"}
	case panelTasks:
		return []string{"slow first", "failing first", "failed first"}
	default:
		return []string{"name", "tasks", "since"}
	}
}

// hasSkipped reports whether tasks were skipped.
func (m *model) hasSkipped() bool {
	return slices.ContainsFunc(m.snapshot.Stats.Actions, func(a stint.ActionStats) bool {
		return a.Skipped > 0
	})
}

// columns are the columns of the panel: more if there are limits or skipped tasks.
func (m *model) columns() []column {
	columns := m.panel.columns()
	limited := slices.ContainsFunc(m.snapshot.Stats.Actions, func(a stint.ActionStats) bool {
		return a.Limited || a.Paused || a.Parked > 0
	})
	if m.panel == panelActions && m.hasSkipped() {
		columns = append(columns,
			column{title: "SKIPPED", width: 6, short: "SKIP.", right: true, rank: 8})
	}
	if m.panel == panelActions && limited {
		columns = append(columns,
			column{title: "PARKED", width: 6, right: true, rank: 4},
			column{title: "LIMITS", width: 7, rank: 1})
	}
	return columns
}

// columns are the columns of the rows. Numbers have their place on any screen; names get most of
// the rest.
func (p panel) columns() []column {
	switch p {
	case panelActions:
		return []column{
			{title: "ACTION", width: 12, widthMax: 50, share: 1},
			{title: "READY", width: 6, right: true, rank: 1},
			{title: "OLDEST", width: 6, right: true, rank: 3},
			{title: "BLOCKED", width: 6, short: "BLOCK.", right: true, rank: 5},
			{title: "SCHEDULED", width: 6, short: "SCHED.", right: true, rank: 7},
			{title: "IN-PROGRESS", width: 6, short: "IN-PR.", right: true, rank: 2},
			{title: "TRIES/S", width: 5, short: "TRY/S", right: true, rank: 4},
			{title: "RETRIES/S", width: 7, short: "RETRY/S", right: true, rank: 5},
			{title: "COMPLETED", width: 6, short: "COMPL.", right: true, rank: 6},
			{title: "ABORTED", width: 6, short: "ABORT.", right: true, rank: 6},
		}
	case panelTasks:
		return []column{
			{title: "ID", width: 16, widthMax: 60, share: 3},
			{title: "ACTION", width: 8, widthMax: 24, share: 1, rank: 2},
			{title: "STATE", width: 20, widthMax: 30, share: 1, rank: 1, state: true},
			{title: "TRIES", width: 7, rank: 3},
			{title: "ACTOR", width: 8, widthMax: 24, share: 1, rank: 4},
			{title: "STATUS", width: 10, widthMax: 80, share: 2, rank: 5},
		}
	default:
		return []column{
			{title: "ACTOR", width: 16, widthMax: 50, share: 1},
			{title: "TASKS", width: 6, right: true, rank: 1},
			{title: "SINCE", width: 9, rank: 3},
			{title: "ACTIONS", width: 10, widthMax: 200, share: 3, rank: 2},
		}
	}
}

// rows returns the rows of the panel that pass the filter, in the order of the panel.
func (m *model) rows() []row {
	switch m.panel {
	case panelActions:
		return m.actionRows()
	case panelTasks:
		return m.taskRows()
	default:
		return m.actorRows()
	}
}

func (m *model) passes(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.HasPrefix(text, m.filter)
	})
}

func (m *model) actionRows() []row {
	var actions []stint.ActionStats
	for _, a := range m.snapshot.Stats.Actions {
		if m.passes(a.Action) {
			actions = append(actions, a)
		}
	}
	by := m.lists[panelActions].order
	slices.SortStableFunc(actions, func(a, b stint.ActionStats) int {
		switch panelActions.orders()[by] {
		case "ready":
			return cmp.Compare(b.Ready, a.Ready)
		case "oldest":
			return cmp.Compare(b.OldestReady, a.OldestReady)
		case "in progress":
			return cmp.Compare(b.InProgress, a.InProgress)
		case "tries/s":
			return cmp.Compare(m.rates[b.Action].tries, m.rates[a.Action].tries)
		case "retries/s":
			return cmp.Compare(m.rates[b.Action].retries, m.rates[a.Action].retries)
		case "aborted":
			return cmp.Compare(b.Aborted, a.Aborted)
		default:
			return cmp.Compare(a.Action, b.Action)
		}
	})
	rows := make([]row, len(actions))
	for i, a := range actions {
		rows[i] = row{key: a.Action, filter: a.Action, cells: func() []string {
			return m.actionCells(a)
		}}
	}
	return rows
}

func (m *model) actionCells(a stint.ActionStats) []string {
	oldest := ""
	if a.Ready > 0 {
		oldest = display.Span(a.OldestReady)
	}
	count := func(state stint.State, n int64) string { return m.number(n, state) }
	cells := []string{
		display.Text(a.Action),
		count(stint.StateReady, a.Ready), oldest,
		count(stint.StateBlocked, a.Blocked), count(stint.StateScheduled, a.Scheduled),
		count(stint.StateInProgress, a.InProgress),
		m.rateOf(a.Action, func(p pace) float64 { return p.tries }),
		m.rateOf(a.Action, func(p pace) float64 { return p.retries }),
		count(stint.StateCompleted, a.Completed), count(stint.StateAborted, a.Aborted),
	}
	if m.hasSkipped() {
		cells = append(cells, count(stint.StateSkipped, a.Skipped))
	}
	return append(cells, m.parked(a), limits(a))
}

// parked is how many ready tasks wait for their keys; nothing where none ever does.
func (m *model) parked(a stint.ActionStats) string {
	if a.Parked == 0 && !a.Limited {
		return ""
	}
	return m.number(a.Parked, stint.StateReady)
}

func limits(a stint.ActionStats) string {
	switch {
	case a.Paused:
		return "paused"
	case a.Limited:
		return "limited"
	}
	return ""
}

// number is how many tasks there are in a state, in five characters, and a tilde before estimates.
func (m *model) number(n int64, state stint.State) string {
	text := strconv.FormatInt(n, 10)
	for _, unit := range []string{"k", "M", "G", "T", "P"} {
		const exactMax, thousand = 100_000, 1000
		if n < exactMax {
			break
		}
		n /= thousand
		text = strconv.FormatInt(n, 10) + unit
	}
	if slices.Contains(m.snapshot.Stats.Estimated, state) {
		return "~" + text
	}
	return text
}

func (m *model) taskRows() []row {
	problems := m.snapshot.Problems
	groups := [][]stint.TaskInfo{problems.Slow, problems.Failing, problems.Failed}
	first := m.lists[panelTasks].order
	groups = slices.Concat(groups[first:], groups[:first])
	if m.filter != "" {
		groups = append(groups, m.snapshot.Found)
	}
	var rows []row
	known := map[stint.TaskID]bool{}
	for _, tasks := range groups {
		for i := range tasks {
			task := &tasks[i]
			id := string(task.ID)
			if known[task.ID] || !m.passes(id, task.Action, string(task.Actor)) {
				continue
			}
			known[task.ID] = true
			rows = append(rows, row{key: id, filter: id, task: task, cells: func() []string {
				return taskCells(task, m.snapshot.Now)
			}})
		}
	}
	return rows
}

func taskCells(task *stint.TaskInfo, now time.Time) []string {
	return []string{
		display.Text(string(task.ID)), display.Text(task.Action), stateCell(task, now),
		display.Tries(task), display.Text(string(task.Actor)), display.FirstWords(task.Status),
	}
}

// stateCell begins with the state, for its colour, and says for how long, or when it ends.
func stateCell(task *stint.TaskInfo, now time.Time) string {
	text := string(task.State)
	switch task.State {
	case stint.StateInProgress:
		if !task.OwnedAt.IsZero() {
			text += " " + display.Span(now.Sub(task.OwnedAt))
		}
	case stint.StateScheduled:
		text += " " + display.Relative(task.NotBefore, now)
	case stint.StateCompleted, stint.StateSkipped:
		text += " " + display.Span(now.Sub(task.FinishedAt))
	case stint.StateAborted:
		text += " " + display.Span(now.Sub(task.FinishedAt)) + ", " + string(task.AbortCause)
	case stint.StateBlocked, stint.StateReady:
	}
	return text
}

func (m *model) actorRows() []row {
	var actors []stint.ActorInfo
	for _, a := range m.snapshot.Actors {
		if m.passes(append(a.Actions, string(a.Actor))...) {
			actors = append(actors, a)
		}
	}
	by := m.lists[panelActors].order
	slices.SortStableFunc(actors, func(a, b stint.ActorInfo) int {
		switch panelActors.orders()[by] {
		case "tasks":
			return cmp.Compare(b.Tasks, a.Tasks)
		case "since":
			return a.Since.Compare(b.Since)
		default:
			return cmp.Compare(a.Actor, b.Actor)
		}
	})
	rows := make([]row, len(actors))
	for i, a := range actors {
		key := string(a.Actor) + "\x00" + a.Since.Format(time.RFC3339Nano)
		tasks := strconv.Itoa(a.Tasks)
		if m.snapshot.Partly { // a service does not tell
			tasks = "-"
		}
		rows[i] = row{key: key, filter: string(a.Actor), cells: func() []string {
			return []string{
				display.Text(string(a.Actor)), tasks,
				display.Relative(a.Since, m.snapshot.Now),
				display.Text(strings.Join(a.Actions, ", ")),
			}
		}}
	}
	return rows
}
