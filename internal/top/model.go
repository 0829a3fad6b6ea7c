package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

// A model is what is on the screen. Bubbletea calls it from one goroutine; what takes time goes on
// in commands, which send it messages.
type model struct {
	source  Source
	options Options
	// ask makes a command of a question to the source, whose context ends in time.
	ask           func(question func(ctx context.Context) tea.Msg) tea.Cmd
	width, height int

	look    Look // The last good one.
	looked  bool // There was one.
	lookErr error
	past    []Look // Good ones, the last one included.
	rates   map[string]pace
	looking bool
	again   bool // Look again as soon as the look under way has ended.
	looks   int  // How many have begun.
	paused  bool

	panel  panel
	lists  [panels]list
	filter string
	typing bool // The filter is being typed.
	help   bool

	opened  stint.TaskID // Empty: none.
	details *Details     // nil: not known yet.
	openErr error
	scroll  int // How many lines of the details are above the screen.

	asking   *question
	changing bool   // What the user confirmed is under way.
	leaving  bool   // Quit when it is done.
	message  string // What came of it.
}

// A question is asked before a task is changed.
type question struct {
	verb, done string
	id         stint.TaskID
	note       string
	change     func(ctx context.Context, id stint.TaskID) error
}

func newModel(
	source Source, options Options,
	ask func(question func(ctx context.Context) tea.Msg) tea.Cmd,
) *model {
	return &model{source: source, options: options, ask: ask}
}

// The messages.
type (
	lookMsg struct {
		look Look
		err  error
	}
	tickMsg   struct{ look int } // The time for the look after that one has come.
	openedMsg struct {
		id      stint.TaskID
		details *Details
		err     error
	}
	changedMsg struct {
		question *question
		err      error
	}
)

// Init begins the first look.
func (m *model) Init() tea.Cmd { return m.lookNow() }

// lookNow begins a look, after the one that is under way.
func (m *model) lookNow() tea.Cmd {
	if m.looking {
		m.again = true
		return nil
	}
	m.looking, m.again = true, false
	m.looks++
	prefix := m.filter
	look := m.ask(func(ctx context.Context) tea.Msg {
		look, err := m.source.Look(ctx, prefix)
		return lookMsg{look, err}
	})
	return tea.Batch(look, m.open())
}

// open looks at the opened task.
func (m *model) open() tea.Cmd {
	id, known := m.opened, m.details
	if id == "" {
		return nil
	}
	return m.ask(func(ctx context.Context) tea.Msg {
		details, err := m.source.Open(ctx, id, known)
		return openedMsg{id, details, err}
	})
}

// Update takes a message in.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			m.addToFilter(msg.Content)
		}
	case lookMsg:
		cmd = m.see(msg)
	case tickMsg:
		if msg.look == m.looks && !m.paused {
			cmd = m.lookNow()
		}
	case openedMsg:
		if msg.id == m.opened {
			m.openErr = msg.err
			if msg.err == nil {
				m.details = msg.details
			}
		}
	case changedMsg:
		cmd = m.changed(msg)
	}
	m.settle()
	return m, cmd
}

func (m *model) see(msg lookMsg) tea.Cmd {
	m.looking = false
	m.lookErr = msg.err
	if msg.err == nil {
		m.look, m.looked = msg.look, true
		m.remember(msg.look)
	}
	if m.again {
		return m.lookNow()
	}
	look := m.looks
	return tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return tickMsg{look} })
}

// confirm does what was asked for.
func (m *model) confirm() tea.Cmd {
	q := m.asking
	m.asking, m.changing = nil, true
	m.message = fmt.Sprintf("%s %s …", q.verb, readable.Text(string(q.id)))
	return m.ask(func(ctx context.Context) tea.Msg {
		return changedMsg{q, q.change(ctx, q.id)}
	})
}

func (m *model) changed(msg changedMsg) tea.Cmd {
	m.changing = false
	switch {
	case msg.err != nil:
		m.message, m.leaving = oneLine(msg.err), false
	case m.leaving:
		return tea.Quit
	default:
		m.message = msg.question.done + " " + readable.Text(string(msg.question.id))
	}
	return m.lookNow()
}

// settle makes the cursor of the list stay with its row.
func (m *model) settle() {
	rows := m.rows()
	m.lists[m.panel].settle(rows, m.listHeight())
}
