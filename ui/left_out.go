package ui

import (
	"errors"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// namedMax is how many tasks a preview names.
const namedMax = 20

// A leftOut is some tasks that are not changed, and why.
type leftOut struct {
	Tasks int
	word  string // for why, in addresses
	Why   string
	IDs   []stint.TaskID // the first of them
}

// More is how many tasks there are that are not named.
func (l leftOut) More() int { return l.Tasks - len(l.IDs) }

// leftOuts are the tasks that are not changed, by reasons.
func leftOuts(
	k *kind, tasks []bulk.Task, affected stint.Affected, refused []bulk.Refusal,
) (left []leftOut) {
	known := map[stint.TaskID]bool{}
	for _, id := range affected.Tasks {
		known[id] = true
	}
	add := func(word, why string, ids ...stint.TaskID) {
		for _, id := range ids {
			known[id] = true
		}
		i := slices.IndexFunc(left, func(l leftOut) bool { return l.Why == why })
		if i < 0 {
			i, left = len(left), append(left, leftOut{word: word, Why: why})
		}
		left[i].Tasks += len(ids)
		left[i].IDs = append(left[i].IDs, ids[:min(len(ids), namedMax-len(left[i].IDs))]...)
	}
	for _, r := range refused {
		word, why := refusedBecause(r.Err)
		add(word, why, r.Tasks...)
	}
	for _, task := range tasks {
		word := "changed"
		switch {
		case known[task.ID]:
			continue
		case k.name == "abort" && !task.Finished.IsZero():
			word = "ended"
		case k.name == "retry" && task.Finished.IsZero():
			word = "open"
		case k.needs == Change && task.Finished.IsZero():
			word = "same"
		}
		add(word, whyLeft(word), task.ID)
	}
	return left
}

// leftWords are the words for why tasks are left out.
func leftWords() []string {
	return []string{
		"ended", "open", "busy", "started", "same", "behind", "gone", "silent", "changed",
	}
}

// whyLeft says what such a word means.
func whyLeft(word string) string {
	switch word {
	case "ended":
		return "ended already"
	case "open":
		return "not ended yet"
	case "busy":
		return "in progress"
	case "started":
		return "in progress, or ended already"
	case "same":
		return "so already, or changed since they were seen"
	case "behind":
		return "behind a task that was aborted, too"
	case "gone": // services do not tell which of the two
		return "gone, or not yours to change"
	case "silent":
		return "on a shard that does not answer"
	}
	return "gone, or begun or changed since they were seen"
}

// refusedBecause says why tasks are left out of a change, with the word for that.
func refusedBecause(err error) (word, why string) {
	word = "changed"
	var named *stint.TaskError
	var silent *ask.SilentError
	switch {
	case errors.Is(err, stint.ErrRefused):
		word = "gone"
	case errors.As(err, &silent):
		word = "silent"
	case errors.Is(err, stint.ErrTaskInProgress):
		word = "busy"
	case errors.Is(err, stint.ErrTaskStarted):
		word = "started"
	case errors.Is(err, stint.ErrTaskNotFound):
		word = "gone"
	case errors.Is(err, stint.ErrPredecessorAborted) && errors.As(err, &named) &&
		len(named.IDs) > 0:
		why = whyLeft("behind") + ": " + show.Text(named.IDs[0])
		if len(named.IDs) > 1 {
			why += " and others"
		}
		return "behind", why
	}
	return word, whyLeft(word)
}

// countOf says how many tasks are changed.
func countOf(k *kind, affected stint.Affected) string {
	text := display.Count(int64(len(affected.Tasks)), "task")
	if affected.InProgress > 0 {
		text += ", " + display.Number(int64(affected.InProgress)) + " of them in progress,"
	}
	if affected.Others > 0 {
		if affected.InProgress == 0 {
			text += ","
		}
		others := k.others
		if len(affected.Tasks) == 1 {
			others = strings.Replace(others, "them", "it", 1)
		}
		text += " and " + display.Number(int64(affected.Others)) + " " + others
	}
	return strings.TrimSuffix(text, ",")
}
