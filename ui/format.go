package ui

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/charts"
)

// functions are what templates write values with.
func functions() template.FuncMap {
	return template.FuncMap{
		"command":   func(line string) string { return line }, // a handler has its own
		"number":    func(n any) string { return display.Number(whole(n)) },
		"count":     func(n any, noun string) string { return display.Count(whole(n), noun) },
		"text":      shownText,
		"words":     func(status string) string { return shownText(firstWords(status)) },
		"lines":     display.Lines,
		"stateName": stateName,
		"formTitle": func(name string) string {
			return map[string]string{formJSON: "JSON", formText: "Text", formHex: "Hex"}[name]
		},
		"stateTitle": func(state stint.State) string {
			name := stateName(state)
			return strings.ToUpper(name[:1]) + name[1:]
		},
		"stateOf": func(name string) stint.State { return stint.State(name) },
		"origin":  originText,
		"tries":   func(task stint.TaskInfo) string { return display.Tries(&task) },
		"moment":  newMoment,
		"since":   newAge,
		"span":    span,
		"old":     old,
		"rate":    rate,
		"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"join":    strings.Join,
		"states":  states,
		"shares":  shares,
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

// shownText is text in which nothing is hidden.
func shownText(text any) string { return display.Text(fmt.Sprint(text)) }

// wordsMax is how many letters of what an owner said are shown in a list.
const wordsMax = 200

// firstWords is the beginning of a status, on one line.
func firstWords(status string) string {
	const bytesMax = 4 * wordsMax // no letter has more than four bytes
	status = strings.ToValidUTF8(status[:min(len(status), bytesMax)], "")
	status = strings.Join(strings.Fields(status), " ")
	if runes := []rune(status); len(runes) > wordsMax {
		return string(runes[:wordsMax]) + "…"
	}
	return status
}

// stateName is a state in words.
func stateName(state stint.State) string {
	if state == stint.StateInProgress {
		return "in progress"
	}
	return string(state)
}

// states are all of them, in the order of a task's life.
func states() []stint.State {
	return []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted, stint.StateSkipped,
	}
}

// A moment is a time as the pages show it: how far it is from now, and exactly.
type moment struct {
	Exact string // as browsers read it; empty if there is no such time
	Title string
	Text  string
	Form  string // how the script goes on with it: "ago", or "span"
}

// newMoment says how long ago a time was, or in how long it will be.
func newMoment(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{exact(t), stamp(t), display.Relative(t, now), "ago"}
}

// newAge says only how far a time is from now.
func newAge(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{exact(t), stamp(t), display.Span(now.Sub(t)), "span"}
}

func exact(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// span is a length of time that is over.
func span(d time.Duration) string {
	const short = 10 * time.Second
	switch {
	case d < 0:
		return "0 ms" // clocks of a server were set
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < short:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return display.Span(d)
}

// old is how long something has been waiting.
func old(d time.Duration) string {
	if d < time.Second {
		return "<1s"
	}
	return display.Span(d)
}

// rate is a number of tasks per second.
func rate(perSecond float64) string {
	const shownMin, wholeMin, thousand = 0.05, 99.95, 1000
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < shownMin:
		return "<0.1"
	case perSecond < wholeMin:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	case perSecond < wholeMin*thousand:
		return display.Number(int64(perSecond + 0.5))
	}
	return display.Number(int64(perSecond/thousand+0.5)) + "k"
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

// shares are the parts of a bar of tallies.
func shares(tallies []tally, all int64) []charts.Segment {
	return charts.Shares(func(yield func(stint.State, int64) bool) {
		for i := range tallies {
			if !yield(tallies[i].State, tallies[i].Tasks) {
				return
			}
		}
	}, all)
}

// link is the address of a page, with pairs of names and values.
func link(page string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Add(pairs[i], pairs[i+1])
		}
	}
	if page == "" {
		page = "./"
	}
	if len(query) == 0 {
		return page
	}
	return page + "?" + query.Encode()
}
