package display

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

// The words for what a task does when a predecessor is aborted, for [stint.AbortToo] and
// [stint.RunAnyway].
const (
	AbortToo  = "abort-too"
	RunAnyway = "run-anyway"
)

// Tries is how often a task was fetched, and how often it may be unless it has completed.
func Tries(task *stint.TaskInfo) string {
	if task.State == stint.StateCompleted {
		return Number(int64(task.Tries))
	}
	return allTries(task)
}

func allTries(task *stint.TaskInfo) string {
	if task.MaxTries <= 0 {
		return Number(int64(task.Tries))
	}
	return Number(int64(task.Tries)) + " of " + Number(int64(task.MaxTries))
}

// When is the time that matters to a task in its state.
func When(task *stint.TaskInfo, now time.Time) string {
	switch task.State {
	case stint.StateScheduled:
		return "begins " + Relative(task.NotBefore, now)
	case stint.StateInProgress:
		if task.LeaseUntil.IsZero() {
			return "no expiry"
		}
		return "expires " + Relative(task.LeaseUntil, now)
	case stint.StateCompleted, stint.StateAborted, stint.StateSkipped:
		return "ended " + Relative(task.FinishedAt, now)
	case stint.StateBlocked, stint.StateReady:
	}
	return "inserted " + Relative(task.InsertedAt, now)
}

// FirstWords is the beginning of a status text, on one line.
func FirstWords(status string) string {
	const runesMax = 60
	return Cut(strings.Join(strings.Fields(status), " "), runesMax)
}

// Cut is the beginning of a text.
func Cut(text string, runesMax int) string {
	runes := []rune(text)
	if len(runes) > runesMax {
		return Text(string(runes[:runesMax-1])) + "…"
	}
	return Text(text)
}

// A Line is something that is known of a task: its name and the value, which may have several lines
// if it is a status, a body or a result.
type Line struct{ Name, Value string }

// Task is all that is known of a task.
func Task(task *stint.TaskInfo, now time.Time, paint Painter) []Line {
	var lines []Line
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, Line{name, value})
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, Absolute(t, now))
		}
	}
	add("id", Text(string(task.ID)))
	add("action", Text(task.Action))
	add("key", Text(task.Key))
	add("state", paint.State(string(task.State)))
	add("abort cause", string(task.AbortCause))
	add("status", Lines(task.Status))
	if task.Progress > 0 {
		add("progress", fmt.Sprintf("%.0f %%", 100*task.Progress)) //nolint:mnd // per cent
	}
	add("actor", Text(string(task.Actor)))
	if task.TotalDependencies > 0 {
		add("dependencies", Number(int64(task.Signals))+" of "+
			Number(int64(task.TotalDependencies))+" have signalled")
	}
	at("fetched", task.OwnedAt)
	at("lease expires", task.LeaseUntil)
	at("not before", task.NotBefore)
	at("finished", task.FinishedAt)
	at("inserted", task.InsertedAt)
	at("deadline", task.Deadline)
	add("tries", allTries(task))
	if task.Priority != 0 {
		add("priority", strconv.Itoa(int(task.Priority)))
	}
	if task.Cost != 0 {
		add("cost", Number(int64(task.Cost)))
	}
	if task.OnAbort == stint.RunAnyway {
		add("on abort", RunAnyway)
	}
	if task.PostResult {
		add("posts result", "yes")
	}
	add("headers", Lines(Headers(task.Headers)))
	if task.Hidden {
		add("body and result", "you may not see them")
	}
	add("body", Content(task.Body))
	add("result", Content(task.Result))
	return lines
}

// Headers are the headers of a task, each in a line.
func Headers(headers map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lines = append(lines, name+": "+strings.Join(strings.Fields(headers[name]), " "))
	}
	return strings.Join(lines, "\n")
}

// Lines is a status or a log, which may have many lines.
func Lines(status string) string {
	const tab = "    "
	lines := strings.Split(strings.TrimRight(status, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Text(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", tab))
	}
	return strings.Join(lines, "\n")
}

// Content is a body or a result, or how large it is.
func Content(value []byte) string {
	const bytesMax = 4 << 10
	switch {
	case len(value) > bytesMax:
		return Count(int64(len(value)), "byte") + " (see: --json)"
	case utf8.Valid(value) && strings.IndexFunc(string(value), unprintable) < 0:
		return strings.TrimRight(string(value), "\n")
	}
	return Count(int64(len(value)), "byte") + ", not text (see: --json)"
}

func unprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
