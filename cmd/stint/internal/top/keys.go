package top

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// press handles a key. Its meaning depends on what is on the screen.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Interrupt
	case name == "ctrl+z":
		return tea.Suspend
	case m.proposed != nil:
		if name == "y" || name == "Y" {
			return m.confirm()
		}
		m.proposed = nil
		return nil
	case m.typing:
		return m.typeFilter(key)
	}
	if !m.changing {
		m.message = ""
	}
	switch {
	case name == "q":
		if m.changing {
			m.leaving = true
			return nil
		}
		return tea.Quit
	case m.help:
		m.help = false
		return nil
	}
	switch name {
	case "?":
		m.help = true
	case "p":
		m.paused = !m.paused
		if !m.paused {
			return m.readNow()
		}
	case "a":
		m.proposeAbort()
	case "r":
		m.proposeRetry()
	default:
		if m.opened != "" {
			m.pressOnDetails(name)
			return nil
		}
		return m.pressOnList(name)
	}
	return nil
}

func (m *model) pressOnDetails(name string) {
	page := max(m.bodyHeight()-1, 1)
	switch name {
	case "esc", "backspace", "left", "h", "enter":
		m.opened, m.details, m.openErr, m.scroll = "", nil, nil, 0
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup", "ctrl+b":
		m.scroll -= page
	case "pgdown", "ctrl+f", "space":
		m.scroll += page
	case "home", "g":
		m.scroll = 0
	case "end", "G":
		m.scroll = len(m.detailLines())
	}
}

func (m *model) pressOnList(name string) tea.Cmd {
	rows, list := m.rows(), &m.lists[m.panel]
	page := max(m.listHeight()-1, 1)
	switch name {
	case "up", "k":
		list.move(rows, -1)
	case "down", "j":
		list.move(rows, 1)
	case "pgup", "ctrl+b":
		list.move(rows, -page)
	case "pgdown", "ctrl+f", "space":
		list.move(rows, page)
	case "home", "g":
		*list = list.home()
	case "end", "G":
		list.move(rows, len(rows))
	case "tab", "right", "l":
		m.panel = (m.panel + 1) % panels
	case "shift+tab", "left", "h":
		m.panel = (m.panel + panels - 1) % panels
	case "s":
		orders := len(m.panel.orders())
		*list = list.home()
		list.order = (list.order + 1) % orders
	case "/":
		m.typing = true
	case "esc":
		if m.filter != "" {
			m.setFilter("")
			return m.readNow()
		}
	case "enter":
		return m.enter()
	}
	return nil
}

// enter opens a task, or shows the tasks with an action or of an actor.
func (m *model) enter() tea.Cmd {
	row, ok := m.selected()
	switch {
	case !ok:
		return nil
	case row.task != nil:
		return m.open(row.task.ID)
	}
	m.setFilter(row.filter)
	m.panel = panelTasks
	return m.readNow()
}

func (m *model) typeFilter(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "enter":
		m.typing = false
		return m.readNow()
	case "esc":
		m.typing = false
		m.setFilter("")
		return m.readNow()
	case "backspace", "ctrl+h":
		_, last := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-last])
	case "ctrl+u", "ctrl+w":
		m.setFilter("")
	default:
		m.addToFilter(key.Text)
	}
	return nil
}

// addToFilter adds typed or pasted text, without the characters that do not print.
func (m *model) addToFilter(text string) {
	const bytesMax = 512 // of an ID
	text = m.filter + strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) <= bytesMax {
		m.setFilter(text)
	}
}

func (m *model) setFilter(text string) {
	m.filter = text
	for i := range m.lists {
		m.lists[i] = m.lists[i].home()
	}
}

// target is the task that a key is about; nil if there is none.
func (m *model) target() *stint.TaskInfo {
	if m.opened != "" {
		if m.details == nil {
			return nil
		}
		return &m.details.Task
	}
	if row, ok := m.selected(); ok {
		return row.task
	}
	return nil
}

func (m *model) proposeAbort() {
	task := m.target()
	switch {
	case m.changing:
	case task == nil:
		m.message = "abort: choose a task first"
	case isFinal(task):
		m.message = fmt.Sprintf("%s is %s already", display.Text(string(task.ID)), task.State)
	default:
		m.proposed = &change{
			verb: "abort", done: "aborted", id: task.ID, note: " and what depends on it",
			do: m.source.Abort,
		}
	}
}

func (m *model) proposeRetry() {
	task := m.target()
	switch {
	case m.changing:
	case task == nil:
		m.message = "retry: choose a task first"
	case !isFinal(task):
		m.message = fmt.Sprintf("%s is %s: only what has finished can be retried",
			display.Text(string(task.ID)), task.State)
	default:
		m.proposed = &change{
			verb: "retry", done: "retried", id: task.ID,
			note: " and what was aborted or skipped because of it", do: m.source.Retry,
		}
	}
}

func isFinal(task *stint.TaskInfo) bool {
	return task.State == stint.StateCompleted || task.State == stint.StateAborted ||
		task.State == stint.StateSkipped
}
