package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A tryJSON is an ended try as --json prints it.
type tryJSON struct {
	Number  int              `json:"number"`
	Outcome stint.TryOutcome `json:"outcome"`
	Actor   string           `json:"actor"`
	OwnedAt time.Time        `json:"owned_at,omitzero"`
	EndedAt time.Time        `json:"ended_at"`
	Status  string           `json:"status,omitzero"`
	Log     string           `json:"log,omitzero"`
}

// A stepJSON is a recorded step as --json prints it.
type stepJSON struct {
	Name       string    `json:"name"`
	RecordedAt time.Time `json:"recorded_at"`
	Bytes      int       `json:"bytes"`
}

func triesJSON(tries []stint.Try) []tryJSON {
	documents := make([]tryJSON, len(tries))
	for i, try := range tries {
		documents[i] = tryJSON{
			Number: try.Number, Outcome: try.Outcome, Actor: string(try.Actor),
			OwnedAt: utc(try.OwnedAt), EndedAt: utc(try.EndedAt), Status: try.Status, Log: try.Log,
		}
	}
	return documents
}

func stepsJSON(steps []stint.StepInfo) []stepJSON {
	documents := make([]stepJSON, len(steps))
	for i, step := range steps {
		documents[i] = stepJSON{step.Name, utc(step.RecordedAt), step.Bytes}
	}
	return documents
}

// moreTries are the tries of a task, if they say more than the task: if it has ended at once, its
// only try does not, unless there is a log.
func moreTries(task *stint.TaskInfo, tries []stint.Try) []stint.Try {
	if len(tries) == 1 && tries[0].Log == "" && !task.FinishedAt.IsZero() {
		return nil
	}
	return tries
}

// history is what show tells of the tries of a task. A service of an older release does not know.
func (p *program) history(
	ctx context.Context, db *database, task *stint.TaskInfo,
) (stint.History, error) {
	history, err := db.tasks().History(ctx, task.ID)
	if connect.CodeOf(err) == connect.CodeUnimplemented && !errors.Is(err, stint.ErrSchemaVersion) {
		fmt.Fprintln(p.stderr, "the service is of an older release, which tells nothing of tries "+
			"and steps")
		return stint.History{}, nil
	}
	history.Tries = moreTries(task, history.Tries)
	return history, err
}

// historyLines are the tries and the steps of a task for people.
func historyLines(history stint.History, now time.Time) []display.Line {
	var lines []display.Line
	for _, try := range history.Tries {
		value := fmt.Sprintf("%s %s", try.Outcome, display.Absolute(try.EndedAt, now))
		if !try.OwnedAt.IsZero() {
			took := try.EndedAt.Sub(try.OwnedAt).Round(time.Millisecond)
			value += fmt.Sprintf(", after %v", took)
		}
		value += ", by " + display.Text(string(try.Actor))
		for _, text := range []string{try.Status, try.Log} {
			if text != "" {
				value += "\n" + display.Lines(text)
			}
		}
		lines = append(lines, display.Line{Name: fmt.Sprint("try ", try.Number), Value: value})
	}
	var steps []string
	for _, step := range history.Steps {
		steps = append(steps, fmt.Sprintf("%s (%s)", display.Text(step.Name),
			display.Absolute(step.RecordedAt, now)))
	}
	if len(steps) > 0 {
		lines = append(lines, display.Line{Name: "steps", Value: strings.Join(steps, "\n")})
	}
	return lines
}
