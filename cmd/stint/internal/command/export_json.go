package command

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/network"
)

// exportedDetails are what TaskInfo does not say of a task.
type exportedDetails struct {
	ID       stint.TaskID
	FailFast bool
	List     []exportedEdge
}

// An exportedEdge is a predecessor, with its condition if it has one.
type exportedEdge struct {
	ID      stint.TaskID `json:"id"`
	Ended   bool         `json:"ended"`
	Accepts int16        `json:"accepts"`
	Results [][]byte     `json:"results"`
}

// An exportedJSON is a line with a task.
type exportedJSON struct {
	Task  *exportedTaskJSON `json:"task,omitempty"`
	Ended *exportedTaskJSON `json:"ended,omitempty"`
	Info  exportedInfoJSON  `json:"info"`
}

// An exportedTaskJSON is a task as insert reads it.
type exportedTaskJSON struct {
	scheduledTaskJSON
	NotBefore time.Time `json:"not_before,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
}

// An exportedInfoJSON is what a task has come to.
type exportedInfoJSON struct {
	StatusCode   stint.StatusCode `json:"status_code"`
	State        stint.State      `json:"state"`
	AbortCause   stint.AbortCause `json:"abort_cause,omitzero"`
	Tries        int              `json:"tries"`
	Actor        string           `json:"actor,omitzero"`
	Status       string           `json:"status,omitzero"`
	Progress     float64          `json:"progress,omitzero"`
	InsertedAt   time.Time        `json:"inserted_at"`
	OwnedAt      time.Time        `json:"owned_at,omitzero"`
	LeaseUntil   time.Time        `json:"lease_until,omitzero"`
	FinishedAt   time.Time        `json:"finished_at,omitzero"`
	Result       *string          `json:"result,omitzero"`
	ResultBase64 []byte           `json:"result_base64,omitzero"`
	WaitedFor    []stint.TaskID   `json:"waited_for,omitempty"`
}

func (e *exporting) newExportedJSON(
	info *stint.TaskInfo, details *exportedDetails,
) exportedJSON {
	line := exportedJSON{Info: exportedInfoJSON{
		StatusCode: info.StatusCode, State: info.State, AbortCause: info.AbortCause,
		Tries: info.Tries, Actor: string(info.Actor), Status: info.Status,
		Progress: info.Progress, InsertedAt: utc(info.InsertedAt), OwnedAt: utc(info.OwnedAt),
		LeaseUntil: utc(info.LeaseUntil), FinishedAt: utc(info.FinishedAt),
	}}
	line.Info.Result, line.Info.ResultBase64 = textOrBytes(info.Result)
	hasEnded := !info.FinishedAt.IsZero()
	task := stint.Task{
		ID: info.ID, Action: info.Action, Key: info.Key, Body: info.Body, Headers: info.Headers,
		Priority: info.Priority, Cost: info.Cost, MaxTries: info.MaxTries,
		PostResult: info.PostResult, OnAbort: info.OnAbort, FailFast: details.FailFast,
	}
	if !hasEnded && task.MaxTries != stint.UnlimitedTries {
		task.MaxTries = max(1, task.MaxTries-info.Tries)
	}
	for _, edge := range details.List {
		if !hasEnded && (edge.Ended || info.State != stint.StateBlocked) {
			line.Info.WaitedFor = append(line.Info.WaitedFor, edge.ID)
			continue
		}
		edge.addTo(&task)
	}
	e.warnResults(&task)
	exported := &exportedTaskJSON{
		newScheduledTaskJSON(&task), utc(info.NotBefore), utc(info.Deadline),
	}
	if line.Task = exported; hasEnded {
		line.Task, line.Ended = nil, exported
	}
	return line
}

// addTo makes the task wait for the predecessor.
func (e *exportedEdge) addTo(task *stint.Task) {
	if e.Accepts == 0 {
		task.After = append(task.After, e.ID)
		return
	}
	stored := network.EdgeCondition{Accepts: e.Accepts, Results: e.Results}
	condition := stint.Condition{
		After: e.ID, States: network.Accepted[stint.State](stored), Results: stored.Texts(),
	}
	if e.Accepts&network.OneOfSeveral != 0 {
		task.WhenAny = append(task.WhenAny, condition)
	} else {
		task.When = append(task.When, condition)
	}
}

// warnResults names a task whose conditions JSON cannot hold.
func (e *exporting) warnResults(task *stint.Task) {
	isBinary := func(result string) bool { return !utf8.ValidString(result) }
	for _, condition := range slices.Concat(task.When, task.WhenAny) {
		if slices.ContainsFunc(condition.Results, isBinary) {
			fmt.Fprintf(e.stderr, "task %s has a condition with a result that is not UTF-8, which "+
				"JSON cannot hold\n", display.Quote(string(task.ID)))
		}
	}
}
