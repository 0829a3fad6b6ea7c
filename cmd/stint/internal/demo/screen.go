package demo

import (
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// A Screen shows the story on a terminal: what has happened in lines, and below them the tasks as
// they are, drawn again and again.
type Screen struct {
	program *tea.Program
	ended   chan error
	style   Style
}

// NewScreen begins to draw. Nothing is read from the terminal, so Ctrl-C stays a signal.
func NewScreen(stdout io.Writer, style Style) *Screen {
	s := &Screen{
		program: tea.NewProgram(&canvas{style: style}, tea.WithInput(nil),
			tea.WithOutput(stdout), tea.WithoutSignalHandler(), tea.WithoutCatchPanics()),
		ended: make(chan error, 1),
		style: style,
	}
	go func() {
		_, err := s.program.Run()
		s.ended <- err
	}()
	return s
}

// Tell shows an event.
func (s *Screen) Tell(e Event) error {
	if e.Kind == KindProgress {
		s.program.Send(e.Picture)
		return nil
	}
	s.program.Println(e.Text(s.style))
	return nil
}

// Close leaves the last picture where it is, and gives the terminal back.
func (s *Screen) Close() error {
	s.program.Quit()
	return <-s.ended
}

// A canvas is the part of the screen that is drawn anew.
type canvas struct {
	style   Style
	picture *Picture
}

func (c *canvas) Init() tea.Cmd { return nil }

func (c *canvas) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case *Picture:
		c.picture = message
	case tea.WindowSizeMsg:
		c.style.Width = message.Width
	}
	return c, nil
}

func (c *canvas) View() tea.View {
	if c.picture == nil {
		return tea.NewView("")
	}
	return tea.NewView(c.picture.Draw(c.style) + "\n")
}

// Lines shows the story where nothing can be drawn: each event in lines of its own, and progress
// now and then.
type Lines struct {
	stdout io.Writer
	style  Style
	last   float64 // When something was written.
}

// NewLines writes to stdout.
func NewLines(stdout io.Writer, style Style) *Lines { return &Lines{stdout: stdout, style: style} }

// Tell writes about an event.
func (l *Lines) Tell(e Event) error {
	const every = 2 * time.Second
	if e.Kind == KindProgress && e.Seconds < l.last+every.Seconds() {
		return nil
	}
	l.last = e.Seconds
	_, err := fmt.Fprintln(l.stdout, e.Text(l.style))
	return err
}
