package ui

import (
	"embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

//go:embed pages/*.html
var pageFiles embed.FS

// templates are the pages by the names of their files, each with the frame around it. They are
// never executed, but their clones.
//
//nolint:gochecknoglobals // never changes
var templates = sync.OnceValue(func() map[string]*template.Template {
	around := template.Must(template.New("frame").Funcs(functions()).ParseFS(pageFiles,
		"pages/frame.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	files, _ := pageFiles.ReadDir("pages") // which is always there
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name != "frame" && name != "parts" {
			all[name] = template.Must(template.Must(around.Clone()).ParseFS(pageFiles,
				"pages/"+file.Name()))
		}
	}
	return all
})

// commandPages are the templates of pages whose commands have some flags, made when first needed.
type commandPages struct {
	mutex sync.Mutex
	known map[commandPage]*template.Template
}

type commandPage struct{ name, flags string }

// noCommands in place of flags says that a page names no commands.
const noCommands = "-"

// of returns the template of a page whose commands have these flags.
func (c *commandPages) of(name, flags string) *template.Template {
	const most = 200 // a service has as many flags as names under which it is reached
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at := commandPage{name, flags}
	if c.known[at] == nil {
		if c.known == nil || len(c.known) == most {
			c.known = map[commandPage]*template.Template{}
		}
		c.known[at] = template.Must(templates()[name].Clone()).Funcs(template.FuncMap{
			"command": func(line string) string {
				if flags == noCommands {
					return ""
				}
				return show.WithFlags(line, flags)
			},
		})
	}
	return c.known[at]
}

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
		"rate":    show.PerSecond,
		"exact":   show.Exact,
		"clock":   show.NewClock,
		"most": func(c charts.Curve) string {
			if c.Unit == charts.Seconds {
				return show.Span(time.Duration(c.Most * float64(time.Second)))
			}
			return display.Number(int64(math.Ceil(c.Most))) + " " + string(c.Unit)
		},
		"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"join":    strings.Join,
		"states":  show.States,
		"shares":  show.Shares,
		"plus":    func(a, b int) int { return a + b },
		"pair":    func(task stint.TaskInfo, now time.Time) taskAt { return taskAt{task, now} },
		"tasklist": func(tasks []stint.TaskInfo, now time.Time) taskList {
			return taskList{Tasks: tasks, Now: now}
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

// A taskAt is a task as of a time.
type taskAt struct {
	Task stint.TaskInfo
	Now  time.Time
}

// A taskList is some tasks as of a time.
type taskList struct {
	Tasks []stint.TaskInfo
	Now   time.Time
	Picks bool // they can be selected

	Columns map[string]bool // besides the usual ones
	Bodies  map[stint.TaskID]string
}
