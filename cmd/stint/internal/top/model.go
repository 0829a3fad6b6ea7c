package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A model is what is on the screen. Bubbletea calls it from one goroutine. Work that takes time
// goes on in commands, which send messages to the model.
type model struct {
	source  Source
	options Options
	// ask makes a command of a question to the source. The context of the question ends in time.
	ask           func(question func(ctx context.Context) tea.Msg) tea.Cmd
	width, height int

	snapshot Snapshot // The last good one.
	hasRead  bool     // There was one.
	readErr  error
	past     []Snapshot // Good ones, the last one included.
	rates    map[string]pace
	reading  bool
	again    bool // Read again as soon as the read under way has ended.
	reads    int  // How many have begun.
	paused   bool

	panel  panel
	lists  [panels]list
	filter string
	typing bool // The filter is being typed.
	help   bool

	opened  stint.TaskID // Empty: none.
	details *Details     // nil: not known yet.
	openErr error
	scroll  int // How many lines of the details are above the screen.

	proposed *change // The user is asked whether to make it.
	changing bool    // What the user confirmed is under way.
	leaving  bool    // Quit when it is done.
	message  string  // What came of it.
}

// A change is made to a task when the user has confirmed it.
type change struct {
	verb, done string
	id         stint.TaskID
	note       string
	do         func(ctx context.Context, id stint.TaskID) error
}

func newModel(
	source Source, options Options,
	ask func(question func(ctx context.Context) tea.Msg) tea.Cmd,
) *model {
	return &model{source: source, options: options, ask: ask}
}

// The messages.
type (
	snapshotMsg struct {
		snapshot Snapshot
		err      error
		opened   *openedMsg // nil if no task was opened.
	}
	tickMsg   struct{ read int } // The time for the read after that one has come.
	openedMsg struct {
		id      stint.TaskID
		details *Details
		err     error
	}
	changedMsg struct {
		change *change
		err    error
	}
)

// Init begins the first read.
func (m *model) Init() tea.Cmd { return m.readNow() }

// readNow begins a read. If a read is under way, the new one begins after it.
func (m *model) readNow() tea.Cmd {
	if m.reading {
		m.again = true
		return nil
	}
	m.reading, m.again = true, false
	m.reads++
	prefix, open := m.filter, m.questionOpen()
	return m.ask(func(ctx context.Context) tea.Msg {
		snapshot, err := m.source.Read(ctx, prefix)
		seen := snapshotMsg{snapshot: snapshot, err: err}
		if err == nil && open != nil {
			opened := open(ctx)
			seen.opened = &opened
		}
		return seen
	})
}

// questionOpen asks for the opened task; nil if there is none.
func (m *model) questionOpen() func(ctx context.Context) openedMsg {
	id, known := m.opened, m.details
	if id == "" {
		return nil
	}
	return func(ctx context.Context) openedMsg {
		details, err := m.source.Open(ctx, id, known)
		return openedMsg{id, details, err}
	}
}

// open opens a task.
func (m *model) open(id stint.TaskID) tea.Cmd {
	m.opened = id
	question := m.questionOpen()
	return m.ask(func(ctx context.Context) tea.Msg { return question(ctx) })
}

// Update handles a message.
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
	case snapshotMsg:
		cmd = m.see(msg)
	case tickMsg:
		if msg.read == m.reads && !m.paused {
			cmd = m.readNow()
		}
	case openedMsg:
		m.seeOpened(msg)
	case changedMsg:
		cmd = m.changed(msg)
	}
	m.settle()
	return m, cmd
}

func (m *model) see(msg snapshotMsg) tea.Cmd {
	m.reading = false
	m.readErr = msg.err
	if msg.err == nil {
		m.snapshot, m.hasRead = msg.snapshot, true
		m.remember(msg.snapshot)
	}
	if msg.opened != nil {
		m.seeOpened(*msg.opened)
	}
	if m.again {
		return m.readNow()
	}
	read := m.reads
	return tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return tickMsg{read} })
}

func (m *model) seeOpened(msg openedMsg) {
	if msg.id != m.opened {
		return // it was closed meanwhile
	}
	m.openErr = msg.err
	if msg.err == nil {
		m.details = msg.details
	}
}

// confirm makes the change that was proposed.
func (m *model) confirm() tea.Cmd {
	c := m.proposed
	m.proposed, m.changing = nil, true
	m.message = fmt.Sprintf("%s %s …", c.verb, display.Text(string(c.id)))
	return m.ask(func(ctx context.Context) tea.Msg { return changedMsg{c, c.do(ctx, c.id)} })
}

func (m *model) changed(msg changedMsg) tea.Cmd {
	m.changing = false
	switch {
	case msg.err != nil:
		m.message, m.leaving = oneLine(msg.err), false
	case m.leaving:
		return tea.Quit
	default:
		m.message = msg.change.done + " " + display.Text(string(msg.change.id))
	}
	return m.readNow()
}

// settle keeps the cursor with its row, and the details on the screen.
func (m *model) settle() {
	m.lists[m.panel].settle(m.rows(), m.listHeight())
	if m.opened != "" {
		m.scroll = max(min(m.scroll, len(m.detailLines())-m.bodyHeight()), 0)
	}
}
