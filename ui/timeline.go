package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

// An event is something that happened to a task.
type event struct {
	At      show.Moment
	Icon    string // the name of a state
	What    show.Sentence
	Took    string
	Status  string
	Log     string
	Outcome string
	Key     string
}

// timeline is the life of a task so far, the newest first. It also says whether tries are missing
// that the store does not keep.
func timeline(e *stint.Explanation, found *ask.TaskAnswer) ([]event, bool) {
	task, kept, now := &e.Task, found.History.Tries, e.Now
	all := []event{{
		At: show.NewMoment(task.InsertedAt, now), Icon: "inserted", What: show.Say("Inserted"),
		Key: "inserted",
	}}
	for i := range kept {
		all = append(all, tryEvent(&kept[i], now))
	}
	ended := len(kept) > 0 && kept[len(kept)-1].EndedAt.Equal(task.FinishedAt)
	switch task.State {
	case stint.StateInProgress:
		all = append(all, event{
			At: show.NewMoment(task.OwnedAt, now), Icon: string(stint.StateInProgress), Key: "now",
			What: show.Say("Try ", display.Number(int64(task.Tries)), " by ",
				show.Actor(task.Actor)),
		})
	case stint.StateScheduled:
		all = append(all, event{
			At: show.NewMoment(task.NotBefore, now), Icon: string(stint.StateScheduled),
			What: show.Say("Begins"), Key: "begins",
		})
	case stint.StateAborted:
		if !ended {
			all = append(all, event{
				At: show.NewMoment(task.FinishedAt, now), Icon: string(stint.StateAborted),
				What: show.Say("Aborted: ", why.Cause(task.Action, task.AbortCause)), Key: "ended",
			})
		}
	case stint.StateCompleted:
		if !ended {
			all = append(all, event{
				At: show.NewMoment(task.FinishedAt, now), Icon: string(stint.StateCompleted),
				What: show.Say("Completed"), Key: "ended",
			})
		}
	case stint.StateSkipped:
		all = append(all, event{
			At: show.NewMoment(task.FinishedAt, now), Icon: string(stint.StateSkipped),
			What: show.Say("Skipped"), Key: "ended",
		})
	case stint.StateBlocked, stint.StateReady:
	}
	past := task.Tries
	if task.State == stint.StateInProgress {
		past--
	}
	for _, changed := range slices.Backward(changeEvents(found.Changed, task.InsertedAt, now)) {
		i := len(all)
		for i > 0 && all[i-1].At.Exact > changed.At.Exact {
			i--
		}
		all = slices.Insert(all, i, changed)
	}
	slices.Reverse(all)
	return all, past > len(kept)+found.TriesCut
}

func tryEvent(try *stint.Try, now time.Time) event {
	e := event{
		At: show.NewMoment(try.EndedAt, now), Status: try.Status, Log: try.Log,
		Outcome: endOf(try.Outcome), Key: "try " + try.EndedAt.UTC().Format(time.RFC3339Nano),
		What: show.Say("Try ", display.Number(int64(try.Number)), " by ", show.Actor(try.Actor)),
	}
	if try.Number == 0 { // an answer from outside
		e.What = show.Say("Answered by ", show.Actor(try.Actor))
	}
	if !try.OwnedAt.IsZero() {
		e.Took = show.Span(try.EndedAt.Sub(try.OwnedAt))
	}
	switch try.Outcome {
	case stint.TryCompleted:
		e.Icon = string(stint.StateCompleted)
	case stint.TryReleased:
		e.Icon = string(stint.StateReady)
	case stint.TryAborted, stint.TryReturned, stint.TryExpired, stint.TryCancelled,
		stint.TryOverdue:
		e.Icon = string(stint.StateAborted)
	}
	return e
}

// endOf says how a try ended.
func endOf(outcome stint.TryOutcome) string {
	switch outcome {
	case stint.TryReturned:
		return "given back, to be tried again"
	case stint.TryReleased:
		return "given back, which does not count"
	case stint.TryCompleted, stint.TryAborted, stint.TryExpired, stint.TryCancelled,
		stint.TryOverdue:
	}
	return string(outcome)
}

// changeEvents are the changes of a task as events of its life: those of the task that has the ID
// now.
func changeEvents(found []stint.Change, since, now time.Time) (all []event) {
	for i := range found {
		c := &found[i]
		if c.At.Before(since) {
			continue
		}
		all = append(all, event{
			At: show.NewMoment(c.At, now), Icon: "changed", Status: c.Reason,
			Key:  fmt.Sprint("change ", c.At.UnixMicro(), " ", c.Verb),
			What: show.Say(changedBy(c, withOthers(c))),
		})
	}
	return all
}
