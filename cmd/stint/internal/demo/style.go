package demo

import (
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A Style is how text is set.
type Style struct {
	// Width is the width of the terminal, in columns.
	Width int
	// Colours says that text may have colours.
	Colours bool
}

// The colours, as terminals name them; they look as the user has set them.
const (
	red    = ansi.Red
	green  = ansi.Green
	yellow = ansi.Yellow
	blue   = ansi.Blue
	grey   = ansi.BrightBlack
)

// A mark is how a state looks in a bar. It can be told from the others without its colour.
type mark struct {
	cell   string
	colour ansi.Color
}

func markOf(state stint.State) mark {
	switch state {
	case stint.StateCompleted:
		return mark{"█", green}
	case stint.StateAborted:
		return mark{"×", red}
	case stint.StateInProgress:
		return mark{"▓", blue}
	case stint.StateReady:
		return mark{"▒", yellow}
	case stint.StateScheduled:
		return mark{"░", grey}
	default:
		return mark{"·", grey}
	}
}

// in returns text in a colour; nil is the usual colour.
func (s Style) in(colour ansi.Color, text string) string {
	if !s.Colours || text == "" || colour == nil {
		return text
	}
	return ansi.NewStyle().ForegroundColor(colour).Styled(text)
}

func (s Style) bold(text string) string {
	if !s.Colours {
		return text
	}
	return ansi.NewStyle().Bold().Styled(text)
}

// indented wraps text, but not between a number and its unit, and puts it behind a margin.
func (s Style) indented(text string, colour ansi.Color) []string {
	const widest = 100
	width := min(s.Width, widest) - len(margin)
	const unbroken = "\u00a0"
	text = regexp.MustCompile(`(\d) (m?s\b)`).ReplaceAllString(text, "${1}"+unbroken+"${2}")
	lines := strings.Split(ansi.Wrap(text, max(width, 1), ""), "\n")
	for i, line := range lines {
		line = strings.ReplaceAll(line, unbroken, " ")
		lines[i] = margin + s.in(colour, strings.TrimRight(line, " "))
	}
	return lines
}

// margin is as wide as the time in front of a headline.
const margin = "          "

func grouped(n int) string { return display.Number(int64(n)) }

func counted(n int, noun string) string { return display.Count(int64(n), noun) }
