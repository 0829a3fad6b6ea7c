package drawing

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/stint-tasks/stint"
)

// A label is what the box of a task says.
type label struct {
	id, action   string // shortened
	state, tries string
	title        string // everything in full
}

// cellsMax is how many letters of an ID or an action are shown; East Asian ones count twice.
const cellsMax = 28

func newLabel(task *stint.TaskInfo) label {
	action := printable(task.Action)
	l := label{state: string(task.State)}
	if task.AbortCause != "" {
		l.state += ", " + string(task.AbortCause)
	}
	if task.Action == stint.Spontaneous {
		action = "spontaneous"
	} else {
		l.tries = tries(task.Tries, task.MaxTries)
	}
	id := printable(string(task.ID))
	l.id, l.action = shorten(id, cellsMax), shorten(action, cellsMax)
	l.title = id + "\n" + action + "\n" + l.state
	if l.tries != "" {
		l.title += "\n" + l.tries
	}
	if task.OnAbort == stint.RunAnyway {
		l.title += "\nruns anyway if a predecessor is aborted"
	}
	return l
}

func tries(n, most int) string {
	switch {
	case most > 0:
		return fmt.Sprintf("%d of %d tries", n, most)
	case n == 1:
		return "1 try"
	default:
		return fmt.Sprintf("%d tries", n)
	}
}

// width is the room that the label needs, in pixels.
func (l *label) width() int {
	// The widths of a letter in the fonts of the lines; the last is an average.
	const wideID, wideAction, wideState = 7.85, 7.25, 6.9
	return int(max(float64(ansi.StringWidth(l.id))*wideID,
		float64(ansi.StringWidth(l.action))*wideAction,
		float64(len(l.state+l.tries)+2)*wideState))
}

// shorten leaves out the middle of a text that would take more than so many cells. A wide letter at
// the cut may make it one more.
func shorten(text string, cells int) string {
	width := ansi.StringWidth(text)
	if width <= cells {
		return text
	}
	left, right := cells/2, (cells-1)/2
	return ansi.Truncate(text, left, "") + ansi.TruncateLeft(text, width-right, "…")
}

// printable is text in which nothing is hidden and nothing changes the direction of what follows.
func printable(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

func escape(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a builder takes everything
	return escaped.String()
}
