package drawing

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/cells"
	"github.com/stint-tasks/stint/internal/display"
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
	action := display.Text(task.Action)
	l := label{state: string(task.State)}
	if task.AbortCause != "" {
		l.state += ", " + string(task.AbortCause)
	}
	if task.Action == stint.Spontaneous {
		action = "spontaneous"
	} else {
		l.tries = tries(task.Tries, task.MaxTries)
	}
	id := display.Text(string(task.ID))
	l.id, l.action = cells.CutMiddle(id, cellsMax), cells.CutMiddle(action, cellsMax)
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

func escape(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a builder takes everything
	return escaped.String()
}
