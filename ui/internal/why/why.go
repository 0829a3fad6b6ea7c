// Package why says in sentences why a task does not run, or what became of it.
package why

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// Of is the reason of an explanation. It says the same as "stint explain".
func Of(e *stint.Explanation) Reason {
	var r Reason
	task := &e.Task
	switch task.State {
	case stint.StateCompleted:
		r.Headline = show.Say("Completed ", show.NewMoment(task.FinishedAt, e.Now), by(task), ".")
	case stint.StateAborted:
		r.Headline = show.Say("Aborted ", show.NewMoment(task.FinishedAt, e.Now), ": ",
			Cause(task.Action, task.AbortCause), ".")
		r.Bad = task.AbortCause != stint.CauseCancelled && task.AbortCause != stint.CauseReplaced
		r.Others, r.OthersAre = e.BecauseOf, "Because of"
	case stint.StateSkipped:
		r.Headline = show.Say("Skipped ", show.NewMoment(task.FinishedAt, e.Now), ": ",
			skippedFor(e), ".")
		r.Others, r.OthersAre = e.BecauseOf, "Because of"
	case stint.StateBlocked:
		r.Headline = show.Say("Blocked: it waits for ",
			display.Count(int64(e.Missing), "task"), ".")
		if e.AnyOf {
			r.Headline = show.Say("Blocked: it waits for the first of ",
				display.Count(int64(e.Missing), "task"), ".")
		}
		r.Others, r.OthersAre = e.WaitsFor, "Waits for"
		r.More = e.Missing - len(e.WaitsFor)
		if task.NotBefore.After(e.Now) {
			r.Add("It does not begin before ", show.NewMoment(task.NotBefore, e.Now), ".")
		}
	case stint.StateScheduled:
		r.Headline = show.Say("Scheduled: it begins ", show.NewMoment(task.NotBefore, e.Now), ".")
		if !task.NotBefore.After(e.Now) {
			r.Headline = show.Say("Scheduled: it was due ", show.NewMoment(task.NotBefore, e.Now),
				", and nobody has made it ready yet.")
			r.Add("Those do who ask for tasks, and stores that maintain.")
			r.Bad = e.Now.Sub(task.NotBefore) > dueLong
		} else if task.Tries > 0 {
			r.Add("That is the pause before the next try.")
		}
	case stint.StateInProgress:
		r.Headline = show.Say("In progress: ", show.Actor(task.Actor), " has owned it for ",
			show.NewAge(task.OwnedAt, e.Now), ".")
		if task.OwnedAt.IsZero() {
			r.Headline = show.Say("In progress: ", show.Actor(task.Actor), " owns it.")
		}
		r.lease(e)
	case stint.StateReady:
		r.ready(e)
	}
	if start := e.StartText(); start != "" {
		r.Add(strings.ToUpper(start[:1]), start[1:], ".")
	}
	r.chances(e)
	return r
}

// dueLong is how long something may be due before somebody should know.
const dueLong = 10 * time.Second

// skippedFor says in words why a task was skipped.
func skippedFor(e *stint.Explanation) string {
	wasSkipped := func(task stint.TaskInfo) bool { return task.State == stint.StateSkipped }
	switch {
	case len(e.BecauseOf) == 0 && e.Task.Action == stint.External:
		return "an answer said so, or its condition cannot be met"
	case len(e.BecauseOf) > 0 && !slices.ContainsFunc(e.BecauseOf,
		func(task stint.TaskInfo) bool { return !wasSkipped(task) }):
		return "a task that it waited for was skipped"
	}
	return "its condition cannot be met"
}

func by(task *stint.TaskInfo) show.Part {
	if task.Actor == "" {
		return show.Part{}
	}
	return show.Part{Text: " by " + display.Text(string(task.Actor))}
}

func (r *Reason) lease(e *stint.Explanation) {
	until := e.Task.LeaseUntil
	switch {
	case until.IsZero():
		r.Add("Its lease does not expire.")
	case !until.After(e.Now):
		r.Bad = true
		r.Add("Its lease expired ", show.NewMoment(until, e.Now),
			", and nobody has taken it over yet.")
		return
	default:
		r.Add("Its lease expires ", show.NewMoment(until, e.Now), ", unless the owner extends it.")
	}
	switch e.Presence {
	case stint.PresenceGone:
		r.Bad = true
		r.Add("The process of its owner is gone: a store that maintains hands it on.")
	case stint.PresenceLives:
	case stint.PresenceUnknown:
		forHow := "."
		if !until.IsZero() {
			forHow = " until the lease expires."
		}
		r.Add("Nobody watches the process of its owner: if that is gone, the task stays with it",
			forHow)
	}
}

// chances says what limits the task's future.
func (r *Reason) chances(e *stint.Explanation) {
	task := &e.Task
	if show.IsFinal(task.State) {
		return
	}
	if e.Copy != "" {
		r.Bad = true
		r.Add("Nothing is handed out here until somebody runs stint adopt, since the database is "+
			"a copy: ", display.Text(e.Copy), ".")
	}
	if e.TriesLeft >= 0 && task.Tries > 0 {
		r.Add("Tries left: ", display.Number(int64(e.TriesLeft)), " of ",
			display.Number(int64(task.MaxTries)), ".")
	}
	switch {
	case task.Deadline.IsZero(), e.IsOverdue() && task.State == stint.StateReady:
	case e.IsOverdue():
		r.Add("Its deadline passed ", show.NewMoment(task.Deadline, e.Now), ".")
	case task.Action != stint.External || task.State != stint.StateReady:
		r.Add("It is aborted unless it has ended by its deadline, ",
			show.NewMoment(task.Deadline, e.Now), ".")
	}
	if e.IsOverdue() {
		r.Add("A store that maintains aborts it.")
		r.Bad = r.Bad || e.Now.Sub(task.Deadline) > dueLong
	}
	if task.State != stint.StateReady && task.State != stint.StateInProgress {
		r.silence(e)
	}
}
