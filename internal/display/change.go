package display

import (
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// changeWords are what the verbs of changes did, and to how many of what: empty, to an action.
var changeWords = map[string]struct{ done, noun string }{ //nolint:gochecknoglobals // never changes
	"AbortTasks":      {"aborted", "task"},
	"RetryTasks":      {"retried", "task"},
	"DeleteTasks":     {"deleted", "task"},
	"ChangeTasks":     {"changed", "task"},
	"AnswerTasks":     {"answered", "task"},
	"Pause":           {"paused", ""},
	"Resume":          {"resumed", ""},
	"PauseKeys":       {"paused", "key"},
	"ResumeKeys":      {"resumed", "key"},
	"SetLimits":       {"set the limits of", ""},
	"SetWeights":      {"set the weights of", "key"},
	"PutSchedules":    {"put", "schedule"},
	"EnsureSchedules": {"added", "schedule"},
	"PauseSchedules":  {"paused", "schedule"},
	"ResumeSchedules": {"resumed", "schedule"},
	"DeleteSchedules": {"deleted", "schedule"},
	"TriggerSchedule": {"triggered", "schedule"},
}

// Done is what a change did, such as "aborted". Of a verb that this release does not know it is the
// name.
func Done(c *stint.Change) string {
	if known, ok := changeWords[c.Verb]; ok {
		return known.done
	}
	return Text(c.Verb)
}

// Change is what a change did, to what: "aborted 3 tasks of mail and 410 others: mail/1, ...".
func Change(c *stint.Change) string {
	text, noun := Done(c), changeWords[c.Verb].noun
	switch {
	case noun != "":
		text += " " + Count(int64(c.Items), noun)
		if c.Action != "" {
			text += " of " + Text(c.Action)
		}
	case c.Action != "":
		text += " " + Text(c.Action)
	}
	if c.Others > 0 {
		text += " and " + Count(int64(c.Others), "other")
	}
	names := make([]string, len(c.Names))
	for i, name := range c.Names {
		names[i] = Text(name)
	}
	if c.Items > len(names) && len(names) > 0 {
		names = append(names, "...")
	}
	for _, more := range []string{strings.Join(names, ", "), Text(c.Detail)} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// ChangeOfTask is what a change did to one task: "aborted 3m ago by ann with 2 others: because".
func ChangeOfTask(c *stint.Change, when func(time.Time) string) string {
	text := Done(c) + " " + when(c.At)
	if c.By != "" {
		text += " by " + Text(c.By)
	}
	if more := c.Items - 1 + c.Others; more > 0 {
		text += " with " + Count(int64(more), "other")
	}
	if c.Reason != "" {
		text += ": " + Text(c.Reason)
	}
	return text
}
