package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A reason is why a task does not run, or what became of it.
type reason struct {
	Headline show.Sentence
	Details  []show.Sentence
	Bad      bool // somebody has to do something about it, as far as one can tell
	// Others are tasks that have to do with it, and OthersAre what they are.
	Others    []stint.TaskInfo
	OthersAre string
	More      int // how many others there are besides
}

// why tells the reason of an explanation. It says the same as "stint explain".
func why(e *stint.Explanation) reason {
	var r reason
	task := &e.Task
	switch task.State {
	case stint.StateCompleted:
		r.Headline = show.Say("Completed ", show.NewMoment(task.FinishedAt, e.Now), by(task), ".")
	case stint.StateAborted:
		r.Headline = show.Say("Aborted ", show.NewMoment(task.FinishedAt, e.Now), ": ",
			causeText(task.AbortCause), ".")
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
			r.add("It does not begin before ", show.NewMoment(task.NotBefore, e.Now), ".")
		}
	case stint.StateScheduled:
		r.Headline = show.Say("Scheduled: it begins ", show.NewMoment(task.NotBefore, e.Now), ".")
		if !task.NotBefore.After(e.Now) {
			r.Headline = show.Say("Scheduled: it was due ", show.NewMoment(task.NotBefore, e.Now),
				", and nobody has made it ready yet.")
			r.add("Those do who ask for tasks, and stores that maintain.")
			r.Bad = e.Now.Sub(task.NotBefore) > dueLong
		} else if task.Tries > 0 {
			r.add("That is the pause before the next try.")
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

func (r *reason) add(pieces ...any) { r.Details = append(r.Details, show.Say(pieces...)) }

func by(task *stint.TaskInfo) show.Part {
	if task.Actor == "" {
		return show.Part{}
	}
	return show.Part{Text: " by " + display.Text(string(task.Actor))}
}

// causeText says the cause of an abort in words.
func causeText(cause stint.AbortCause) string {
	switch cause {
	case stint.CauseReturned:
		return "its owner aborted it"
	case stint.CauseTries:
		return "it ran out of tries"
	case stint.CauseDependency:
		return "a task that it waited for was aborted"
	case stint.CauseCancelled:
		return "it was cancelled"
	case stint.CauseReplaced:
		return "it was replaced"
	case stint.CauseExpired:
		return "its deadline passed"
	}
	return string(cause)
}

func (r *reason) lease(e *stint.Explanation) {
	until := e.Task.LeaseUntil
	switch {
	case until.IsZero():
		r.add("Its lease does not expire.")
	case !until.After(e.Now):
		r.Bad = true
		r.add("Its lease expired ", show.NewMoment(until, e.Now),
			", and nobody has taken it over yet.")
		return
	default:
		r.add("Its lease expires ", show.NewMoment(until, e.Now), ", unless the owner extends it.")
	}
	switch e.Presence {
	case stint.PresenceGone:
		r.Bad = true
		r.add("The process of its owner is gone: a store that maintains hands it on.")
	case stint.PresenceLives:
	case stint.PresenceUnknown:
		r.add("Nobody watches the process of its owner: if that is gone, the task stays with it.")
	}
}

// ready says what a ready task waits for.
func (r *reason) ready(e *stint.Explanation) {
	task := &e.Task
	held := heldBy(e)
	switch {
	case e.IsOverdue():
		r.Headline = show.Say("Ready, but its deadline passed ",
			show.NewMoment(task.Deadline, e.Now), ": it is fetched no more.")
	case task.Action == stint.External && task.Deadline.IsZero():
		r.Headline = show.Say("Ready: it waits for an answer from outside.")
	case task.Action == stint.External:
		r.Headline = show.Say("Ready: it waits for an answer from outside, which must come ",
			show.NewMoment(task.Deadline, e.Now), ".")
	case nobodyAsks(e) && (len(held) == 0 || waitsForTurnOnly(e.Limits)):
		r.Bad = true
		r.Headline = append(show.Say("Ready, but "), silence(e)...)
		r.add("There is no worker for this action, or none with a free slot.")
		r.Details = append(r.Details, held...)
	case len(held) > 0:
		r.Headline = append(show.Say("Ready, but "), held[0]...)
		r.Details = append(r.Details, held[1:]...)
		r.Others, r.OthersAre = e.Limits.KeyOwned, "In its place, with the same key"
		if len(r.Others) == 0 {
			r.Others, r.OthersAre = e.Limits.Owned, "In its place"
		}
		r.silence(e)
	case e.Limits != nil && e.Limits.Hidden:
		r.Headline = show.Say("Ready: it waits for an actor, or for other tasks of its action, " +
			"which you may not see.")
	case e.Limits != nil && e.Limits.Parked:
		r.Headline = show.Say("Ready, but parked, though nothing holds it up any more.")
		r.add("A store that maintains puts it back into the queue.")
	case !e.IsAsked():
		r.Headline = show.Say("Ready: it waits for a free slot.")
		r.add(show.Capital(silence(e))...)
	default:
		r.Headline = show.Say("Ready: it waits for an actor.")
	}
}

// waitsForTurnOnly reports whether nothing holds a task up but that it is not its turn, which is
// dealt to those who ask.
func waitsForTurnOnly(l *stint.TaskLimits) bool {
	alone := *l
	alone.WaitsForTurn = false
	return len(heldBy(&stint.Explanation{Limits: &alone})) == 0
}

// nobodyAsks reports whether no actor seems to be there for the task's action.
func nobodyAsks(e *stint.Explanation) bool {
	return e.Task.Action != stint.Spontaneous && e.Task.Action != stint.External &&
		!e.IsAsked() && e.Actors == 0
}

// silence says that nobody asks for the action of a task.
func (r *reason) silence(e *stint.Explanation) {
	if nobodyAsks(e) {
		r.add(show.Capital(silence(e))...)
	}
}

func silence(e *stint.Explanation) show.Sentence {
	action := show.Action(e.Task.Action)
	switch {
	case e.Actors > 0 && e.AskedAt.IsZero():
		return show.Say("no slot is free of ", display.Count(int64(e.Actors), "actor"),
			" registered for ", action, ".")
	case e.Actors > 0:
		return show.Say("no slot is free of ", display.Count(int64(e.Actors), "actor"),
			" registered for ", action, ": nobody has asked for more for ",
			show.NewAge(e.AskedAt, e.Now), ".")
	case e.AskedAt.IsZero():
		return show.Say("nobody asks for ", action, ".")
	}
	return show.Say("nobody has asked for ", action, " for ",
		show.NewAge(e.AskedAt, e.Now), ".")
}

// heldBy are the limits and pauses that hold a ready task up, a sentence each.
func heldBy(e *stint.Explanation) []show.Sentence {
	var all []show.Sentence
	if e.Limits == nil {
		return nil
	}
	l, action, key := e.Limits, show.Action(e.Task.Action), display.Text(e.Task.Key)
	add := func(pieces ...any) { all = append(all, show.Say(pieces...)) }
	if !l.PausedSince.IsZero() {
		add("the action ", action, " was paused ", show.NewMoment(l.PausedSince, e.Now), ".")
	}
	if !l.KeyPausedSince.IsZero() {
		add("the key ", key, " was paused ", show.NewMoment(l.KeyPausedSince, e.Now), ".")
	}
	if most := l.Limits.Concurrency; most > 0 && l.InProgress >= most {
		add("the limit is full: ", outOf(l.InProgress, most), " tasks of ", action,
			" are in progress.")
	}
	switch most := l.Limits.ConcurrencyPerKey; {
	case l.Limits.Ordered && len(l.KeyOwned) > 0:
		add("tasks with the key " + key + " come one at a time, in order, and one has not ended.")
	case most > 0 && l.KeyInProgress >= most:
		add("the limit of its key is full: ", outOf(l.KeyInProgress, most),
			" tasks with the key "+key+" are in progress.")
	}
	if !l.NextAt.IsZero() {
		add("the rate of ", action, " is used up: the next task may begin ",
			show.NewMoment(l.NextAt, e.Now), ".")
	}
	if !l.KeyNextAt.IsZero() {
		add("the rate of its key is used up: the next task with the key "+key+" may begin ",
			show.NewMoment(l.KeyNextAt, e.Now), ".")
	}
	switch {
	case !l.WaitsForTurn, !l.PausedSince.IsZero(), !l.KeyPausedSince.IsZero():
	case l.Hidden:
		add("it waits for its turn.")
	default:
		add("it waits for its turn: ", turns(l), ".")
	}
	if len(all) > 0 && l.KeyWaiting > 0 && key != "" {
		add("Tasks with the key ", key, " that wait: ", display.Number(int64(l.KeyWaiting)),
			orMore(l.KeyWaitingOrMore), ".")
	}
	return all
}

func outOf(n, most int) string {
	return display.Number(int64(n)) + " of " + display.Number(int64(most))
}

func turns(l *stint.TaskLimits) string {
	const countedMax = 10_000
	switch l.TurnsAhead {
	case 0:
		return "that of its key is next"
	case 1:
		return "that of its key comes after 1 other"
	}
	return fmt.Sprintf("that of its key comes after %s others%s",
		display.Number(int64(l.TurnsAhead)), orMore(l.TurnsAhead >= countedMax))
}

func orMore(more bool) string {
	if more {
		return " or more"
	}
	return ""
}

// chances says what limits the task's future.
func (r *reason) chances(e *stint.Explanation) {
	task := &e.Task
	if show.IsFinal(task.State) {
		return
	}
	if e.TriesLeft >= 0 && task.Tries > 0 {
		r.add("Tries left: ", display.Number(int64(e.TriesLeft)), " of ",
			display.Number(int64(task.MaxTries)), ".")
	}
	switch {
	case task.Deadline.IsZero(), e.IsOverdue() && task.State == stint.StateReady:
	case e.IsOverdue():
		r.add("Its deadline passed ", show.NewMoment(task.Deadline, e.Now), ".")
	case task.Action != stint.External || task.State != stint.StateReady:
		r.add("It is aborted unless it has ended by its deadline, ",
			show.NewMoment(task.Deadline, e.Now), ".")
	}
	if e.IsOverdue() {
		r.add("A store that maintains aborts it.")
		r.Bad = r.Bad || e.Now.Sub(task.Deadline) > dueLong
	}
	if task.State != stint.StateReady && task.State != stint.StateInProgress {
		r.silence(e)
	}
}

// originText says in a few words what an origin does, or what became of it.
func originText(task stint.TaskInfo) string {
	text := show.FirstWords(task.Status)
	if task.State == stint.StateAborted {
		said := causeText(task.AbortCause)
		if text == "" {
			return said
		}
		return said + ": " + display.Text(text)
	}
	if text != "" {
		text = display.Text(text)
	}
	return text
}
