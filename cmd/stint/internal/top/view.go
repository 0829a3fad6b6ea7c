package top

import (
	"errors"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/cells"
	"github.com/stint-tasks/stint/internal/display"
)

// View is the frame to show.
func (m *model) View() tea.View {
	view := tea.NewView(strings.Join(m.frame(), "\n"))
	view.AltScreen = true
	if m.typing {
		column := ansi.StringWidth(filterPrompt) + ansi.StringWidth(display.Text(m.filter))
		view.Cursor = tea.NewCursor(min(column, max(m.width-1, 0)), max(m.height-1, 0))
	}
	return view
}

// frame returns the lines on the screen: none is wider than the screen, and there are no more than
// fit. The lowest line, which may ask something, is there on any screen.
func (m *model) frame() []string {
	top, bottom := m.topLines(), m.bottomLine()
	lines := top
	switch {
	case m.help:
		lines = append(lines, strings.Split(helpText, "\n")...)
	case m.opened != "":
		body := m.detailLines()
		lines = append(lines, body[min(m.scroll, len(body)):]...)
	default:
		lines = append(lines, m.listLines()...)
	}
	height := max(m.height-1, 0)
	lines = lines[:min(len(lines), height)]
	for len(lines) < height {
		lines = append(lines, "")
	}
	lines = append(lines, bottom)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines
}

// The heights below which something is left out.
const (
	heightForAllTotals = 20
	heightForTotals    = 9
	heightForTitle     = 7
	heightForTabs      = 5
)

const linesOfTotalsMax = 4

// topLines are above the list or the details.
func (m *model) topLines() []string {
	var lines []string
	if m.height >= heightForTitle {
		lines = append(lines, m.title())
	}
	if m.readErr != nil {
		lines = append(lines, m.alarm(cells.CutMiddle(away(m.readErr), m.width)))
	} else if m.snapshot.Away != nil {
		lines = append(lines, m.alarm(cells.CutMiddle(oneLine(m.snapshot.Away), m.width)))
	}
	if m.snapshot.Partly && m.height >= heightForTotals {
		lines = append(lines, "This shows what you may see: you may not see all tasks.")
	}
	switch {
	case !m.hasRead:
	case m.height >= heightForAllTotals:
		lines = append(lines, m.totals(linesOfTotalsMax)...)
	case m.height >= heightForTotals:
		lines = append(lines, m.totals(1)...)
	}
	if m.height >= heightForTabs && m.opened == "" {
		lines = append(lines, m.tabs())
	}
	return lines
}

func (m *model) bodyHeight() int { return max(m.height-1-len(m.topLines()), 0) }

// listHeight is how many rows there is room for, below the titles of the columns.
func (m *model) listHeight() int { return max(m.bodyHeight()-1, 0) }

func (m *model) title() string {
	left := "stint top  " + display.Text(m.options.Database)
	right := "refreshing"
	if m.hasRead {
		right = m.snapshot.Now.UTC().Format("15:04:05Z")
	}
	if m.paused {
		right += " paused"
	} else {
		right += " every " + m.options.Interval.String()
	}
	return m.bold(ends(left, right, m.width))
}

// ends puts one text to the left and one to the right, and cuts the left one if it must.
func ends(left, right string, width int) string {
	left = ansi.Truncate(left, max(width-ansi.StringWidth(right)-1, 0), "…")
	pad := width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return left + strings.Repeat(" ", max(pad, 1)) + right
}

// totals are the numbers of all tasks, on at most linesMax lines.
func (m *model) totals(linesMax int) []string {
	var sum stint.ActionStats
	var tries, retries float64
	for _, a := range m.snapshot.Stats.Actions {
		sum.Blocked += a.Blocked
		sum.Scheduled += a.Scheduled
		sum.Ready += a.Ready
		sum.InProgress += a.InProgress
		sum.Completed += a.Completed
		sum.Aborted += a.Aborted
		sum.Skipped += a.Skipped
		tries += m.rates[a.Action].tries
		retries += m.rates[a.Action].retries
	}
	var parts []string
	for state, n := range sum.ByState() {
		if state == stint.StateSkipped && n == 0 {
			continue // few stores have any
		}
		parts = append(parts, m.paint(string(state), state)+" "+m.number(n, state))
	}
	if m.rates != nil {
		parts = append(parts, "tries "+m.rate(tries)+"/s", "retries "+m.rate(retries)+"/s")
	}
	lines := []string{parts[0]}
	for _, part := range parts[1:] {
		last := &lines[len(lines)-1]
		if longer := *last + "  " + part; ansi.StringWidth(longer) <= m.width {
			*last = longer
		} else {
			lines = append(lines, part)
		}
	}
	return lines[:min(len(lines), linesMax)]
}

func (m *model) tabs() string {
	text := ""
	for i, name := range []string{"actions", "tasks", "actors"} {
		if panel(i) == m.panel {
			text += m.bold("[" + name + "]")
		} else {
			text += " " + name + " "
		}
		text += " "
	}
	right := "s order: " + m.panel.orders()[m.lists[m.panel].order]
	if m.filter != "" {
		right = "filter: " + display.Text(m.filter) + "  " + right
	}
	room := m.width - ansi.StringWidth(text) - 1
	return ends(text, ansi.Truncate(right, max(room, 0), "…"), m.width)
}

func (m *model) listLines() []string {
	rows, list := m.rows(), m.lists[m.panel]
	if len(rows) == 0 {
		return []string{"", "  " + m.nothing()}
	}
	const cursor, noCursor = "> ", "  "
	columns := fit(m.columns(), m.width-len(cursor))
	var titles []string
	for _, c := range m.columns() {
		titles = append(titles, c.title)
	}
	for _, c := range columns {
		titles[c.cell] = c.title
	}
	as := func(_ shown, text string) string { return text }
	lines := []string{m.bold(noCursor + line(columns, titles, as))}
	for i := list.top; i < min(list.top+m.listHeight(), len(rows)); i++ {
		if i == list.index {
			lines = append(lines, m.reverse(cursor+line(columns, rows[i].cells(), as)))
			continue
		}
		task := rows[i].task
		text := line(columns, rows[i].cells(), func(c shown, text string) string {
			if c.state {
				return m.paint(text, task.State)
			}
			return text
		})
		lines = append(lines, noCursor+text)
	}
	return lines
}

// nothing says why a list is empty.
func (m *model) nothing() string {
	switch {
	case !m.hasRead && m.readErr != nil:
		return "nothing was seen yet"
	case !m.hasRead:
		return "loading …"
	}
	seen, here := "", " here"
	if m.snapshot.Partly {
		seen, here = " that you may see", " that you may see"
	}
	switch {
	case m.filter != "":
		return "nothing" + here + " begins with " + display.Text(m.filter) + " (esc: all)"
	case m.panel == panelActions:
		return "no tasks" + seen
	case m.panel == panelTasks:
		return "no task" + seen + " is in progress or failing, none failed lately " +
			"(/: look for tasks)"
	}
	return "no actors" + seen
}

// detailLines are what is known of the opened task.
func (m *model) detailLines() []string {
	var lines []string
	switch {
	case m.openErr != nil:
		lines = append(lines, m.alarm(oneLine(m.openErr)), "")
		if m.details == nil {
			return lines
		}
	case m.details == nil:
		return []string{"loading " + display.Text(string(m.opened)) + " …"}
	}
	const nameWidth = 16
	now := m.details.Explanation.Now
	all := display.Task(&m.details.Task, now, display.Painter(m.options.Colours))
	for _, item := range all {
		name := item.Name
		wrapped := ansi.Hardwrap(item.Value, max(m.width-nameWidth, 1), true)
		for value := range strings.SplitSeq(wrapped, "\n") {
			lines = append(lines, fmt.Sprintf("%-*s%s", nameWidth, name, value))
			name = ""
		}
	}
	lines = append(lines, "")
	for text := range strings.SplitSeq(m.details.Explanation.String(), "\n") {
		wrapped := ansi.Hardwrap(display.Text(text), max(m.width, 1), true)
		lines = append(lines, strings.Split(wrapped, "\n")...)
	}
	return lines
}

const filterPrompt = "filter: "

// bottomLine asks or says something, or names the keys.
func (m *model) bottomLine() string {
	switch {
	case m.proposed != nil:
		return m.proposalLine()
	case m.typing:
		room := max(m.width-ansi.StringWidth(filterPrompt)-1, 0)
		filter := display.Text(m.filter)
		cut := max(ansi.StringWidth(filter)-room, 0)
		return filterPrompt + ansi.TruncateLeft(filter, cut, "")
	case m.message != "":
		return m.message
	case m.help:
		return "any key: back"
	case m.opened != "":
		return "q quit  esc back  a abort  r retry  j/k scroll  p pause  ? help"
	}
	return "q quit  ? help  tab panel  enter open  / filter  p pause  a abort  r retry"
}

// proposalLine asks the user to confirm a change. It cuts the ID in the middle if there is no room
// for it.
func (m *model) proposalLine() string {
	c := m.proposed
	id := display.Text(string(c.id))
	before, after := c.verb+" ", c.note+"? y/n"
	room := m.width - ansi.StringWidth(before+after)
	if idMin := 16; room < min(idMin, ansi.StringWidth(id)) {
		after = "? y/n"
		room = m.width - ansi.StringWidth(before+after)
	}
	return m.alarm(before + cells.CutMiddle(id, room) + after)
}

const helpText = `
  arrows, j, k       move                 space, pgup, pgdn  a page
  g, G               first, last          tab, left, right   next panel
  enter              open a task; of an action or an actor: its tasks
  esc                back; all, after a filter
  /                  filter: what begins with a text; in tasks, of all those in the store
  s                  another order
  a                  abort a task and what depends on it (asks before)
  r                  retry a task that has finished (asks before)
  p                  pause, go on
  q, ctrl+c          quit

  ~ is an estimate; tries are fetches, per second in the last ten seconds
  tasks are those in progress for longest, failing ones, and those that failed lately`

// away is why the last read failed: most often because nobody answers.
func away(err error) string {
	refusal := (*pgconn.PgError)(nil)
	if errors.As(err, &refusal) && refusal.SeverityUnlocalized == "ERROR" ||
		errors.Is(err, stint.ErrRefused) {
		return oneLine(err)
	}
	return "no answer: " + oneLine(err)
}

// oneLine is the text of an error.
func oneLine(err error) string {
	return display.Text(strings.Join(strings.Fields(err.Error()), " "))
}

func (m *model) paint(text string, state stint.State) string {
	// The painter knows only states; a cell may have more text after the state.
	name := string(state)
	if rest, ok := strings.CutPrefix(text, name); ok {
		return display.Painter(m.options.Colours).State(name) + rest
	}
	return text
}

func (m *model) bold(text string) string    { return m.style(text, "1") }
func (m *model) reverse(text string) string { return m.style(text, "7") }
func (m *model) alarm(text string) string   { return m.style(text, "31") }

func (m *model) style(text, attribute string) string {
	if !m.options.Colours {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}
