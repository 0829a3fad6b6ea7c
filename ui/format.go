package ui

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

// functions are what templates write values with.
func functions() template.FuncMap {
	return template.FuncMap{
		"asset":     assetName,
		"command":   func(line string) string { return line }, // a handler has its own
		"number":    func(n any) string { return display.Number(whole(n)) },
		"count":     func(n any, noun string) string { return display.Count(whole(n), noun) },
		"text":      show.Text,
		"words":     func(status string) string { return show.Text(show.FirstWords(status)) },
		"lines":     display.Lines,
		"stateName": show.StateName,
		"formTitle": func(name string) string {
			return map[string]string{
				show.FormJSON: "JSON", show.FormText: "Text", show.FormHex: "Hex",
			}[name]
		},
		"stateTitle": func(state stint.State) string {
			name := show.StateName(state)
			return strings.ToUpper(name[:1]) + name[1:]
		},
		"stateOf": func(name string) stint.State { return stint.State(name) },
		"origin":  why.Origin,
		"tries":   func(task stint.TaskInfo) string { return display.Tries(&task) },
		"moment":  show.NewMoment,
		"since":   show.NewAge,
		"span":    show.Span,
		"old":     show.Old,
		"rate":    show.Rate,
		"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"join":    strings.Join,
		"states":  show.States,
		"shares":  show.Shares,
		"plus":    func(a, b int) int { return a + b },
		"pair":    func(task stint.TaskInfo, now time.Time) taskAt { return taskAt{task, now} },
		"tasklist": func(tasks []stint.TaskInfo, now time.Time) taskList {
			return taskList{tasks, now, false}
		},
		"picklist": func(tasks []stint.TaskInfo, now time.Time) taskList {
			return taskList{tasks, now, true}
		},
		"seen": func(task stint.TaskInfo) string { return bulk.Pack(bulk.NewTask(&task)) },
	}
}

func whole(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case int16:
		return int64(n)
	}
	return 0
}

// A taskAt is a task as of a time, and a taskList are several: what some templates show.
type (
	taskAt struct {
		Task stint.TaskInfo
		Now  time.Time
	}
	taskList struct {
		Tasks []stint.TaskInfo
		Now   time.Time
		Picks bool // they can be selected
	}
)
