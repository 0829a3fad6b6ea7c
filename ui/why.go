package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A part is a piece of a sentence: text, a link, or a time.
type part struct {
	Text string
	Link string
	Time *moment
}

// A sentence is its parts, one after the other.
type sentence []part

// say makes a sentence of texts, moments and parts.
func say(pieces ...any) sentence {
	var s sentence
	for _, piece := range pieces {
		switch piece := piece.(type) {
		case string:
			s = append(s, part{Text: piece})
		case moment:
			s = append(s, part{Time: &piece})
		case part:
			s = append(s, piece)
		}
	}
	return s
}

// The parts that name something link to it.
func actorPart(actor stint.ActorID) part {
	return part{Text: display.Text(string(actor)), Link: link("tasks", "actor", string(actor))}
}

func actionPart(action string) part {
	return part{Text: display.Text(action), Link: link("action", "name", action)}
}

// A reason is why a task does not run, or what became of it.
type reason struct {
	Headline sentence
	Details  []sentence
	Bad      bool // somebody has to do something about it, as far as one can tell
	// Others are tasks that have to do with it, and OthersAre what they are.
	Others    []stint.TaskInfo
	OthersAre string
	More      int // how many others there are besides
}

// askedLately is how recently an actor must have asked for an action to be expected to ask again.
const askedLately = 2 * time.Minute

// why tells the reason of an explanation. It says the same as "stint explain".
func why(e *stint.Explanation) reason {
	var r reason
	task := &e.Task
	switch task.State {
	case stint.StateCompleted:
		r.Headline = say("Completed ", newMoment(task.FinishedAt, e.Now), by(task), ".")
	case stint.StateAborted:
		r.Headline = say("Aborted ", newMoment(task.FinishedAt, e.Now), ": ",
			causeText(task.AbortCause), ".")
		r.Bad = task.AbortCause != stint.CauseCancelled && task.AbortCause != stint.CauseReplaced
		r.Others, r.OthersAre = e.BecauseOf, "Because of"
	case stint.StateSkipped:
		r.Headline = say("Skipped ", newMoment(task.FinishedAt, e.Now),
			": its condition cannot be met.")
		r.Others, r.OthersAre = e.BecauseOf, "Because of"
	case stint.StateBlocked:
		r.Headline = say("Blocked: it waits for ", display.Count(int64(e.Missing), "task"), ".")
		if e.AnyOf {
			r.Headline = say("Blocked: it waits for the first of ",
				display.Count(int64(e.Missing), "task"), ".")
		}
		r.Others, r.OthersAre = e.WaitsFor, "Waits for"
		r.More = e.Missing - len(e.WaitsFor)
		if !task.NotBefore.IsZero() {
			r.add("It does not begin before ", newMoment(task.NotBefore, e.Now), ".")
		}
	case stint.StateScheduled:
		r.Headline = say("Scheduled: it begins ", newMoment(task.NotBefore, e.Now), ".")
		if task.Tries > 0 {
			r.add("That is the pause before the next try.")
		}
	case stint.StateInProgress:
		r.Headline = say("In progress: ", actorPart(task.Actor), " has owned it for ",
			newAge(task.OwnedAt, e.Now), ".")
		if task.OwnedAt.IsZero() {
			r.Headline = say("In progress: ", actorPart(task.Actor), " owns it.")
		}
		r.lease(e)
	case stint.StateReady:
		r.ready(e)
	}
	r.chances(e)
	return r
}

func isFinal(state stint.State) bool {
	return state == stint.StateCompleted || state == stint.StateAborted ||
		state == stint.StateSkipped
}

func (r *reason) add(pieces ...any) { r.Details = append(r.Details, say(pieces...)) }

func by(task *stint.TaskInfo) part {
	if task.Actor == "" {
		return part{}
	}
	return part{Text: " by " + display.Text(string(task.Actor))}
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
	switch until := e.Task.LeaseUntil; {
	case until.IsZero():
		r.add("Its lease does not expire.")
	case until.Before(e.Now):
		r.Bad = true
		r.add("Its lease expired ", newMoment(until, e.Now), ", and nobody has taken it over yet.")
	default:
		r.add("Its lease expires ", newMoment(until, e.Now), ", unless the owner extends it.")
	}
}

// ready says what a ready task waits for.
func (r *reason) ready(e *stint.Explanation) {
	task := &e.Task
	var held []sentence
	if e.Limits != nil {
		held = heldBy(e)
	}
	switch {
	case task.Action == stint.External && task.Deadline.IsZero():
		r.Headline = say("Ready: it waits for an answer from outside.")
	case task.Action == stint.External:
		r.Headline = say("Ready: it waits for an answer from outside, which must come ",
			newMoment(task.Deadline, e.Now), ".")
	case len(held) > 0:
		r.Headline = append(say("Ready, but "), held[0]...)
		r.Details = append(r.Details, held[1:]...)
		r.Others, r.OthersAre = e.Limits.KeyOwned, "In its place, with the same key"
		if len(r.Others) == 0 {
			r.Others, r.OthersAre = e.Limits.Owned, "In its place"
		}
	case nobodyAsks(e):
		r.Bad = true
		r.Headline = append(say("Ready, but "), silence(e)...)
		r.add("There is no worker for this action, or none with a free slot.")
	default:
		r.Headline = say("Ready: it waits for an actor.")
	}
}

// nobodyAsks reports whether no actor seems to be there for the task's action.
func nobodyAsks(e *stint.Explanation) bool {
	return e.Task.Action != stint.Spontaneous && e.Task.Action != stint.External &&
		e.Now.Sub(e.AskedAt) > askedLately
}

func silence(e *stint.Explanation) sentence {
	if e.AskedAt.IsZero() {
		return say("nobody asks for ", actionPart(e.Task.Action), ".")
	}
	return say("nobody has asked for ", actionPart(e.Task.Action), " for ",
		newAge(e.AskedAt, e.Now), ".")
}

// heldBy are the limits and pauses that hold a ready task up, a sentence each.
func heldBy(e *stint.Explanation) []sentence {
	var all []sentence
	l, action, key := e.Limits, actionPart(e.Task.Action), display.Text(e.Task.Key)
	add := func(pieces ...any) { all = append(all, say(pieces...)) }
	if !l.PausedSince.IsZero() {
		add("the action ", action, " was paused ", newMoment(l.PausedSince, e.Now), ".")
	}
	if !l.KeyPausedSince.IsZero() {
		add("the key ", key, " was paused ", newMoment(l.KeyPausedSince, e.Now), ".")
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
			newMoment(l.NextAt, e.Now), ".")
	}
	if !l.KeyNextAt.IsZero() {
		add("the rate of its key is used up: the next task with the key "+key+" may begin ",
			newMoment(l.KeyNextAt, e.Now), ".")
	}
	if l.WaitsForTurn && l.PausedSince.IsZero() && l.KeyPausedSince.IsZero() {
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
	if isFinal(task.State) {
		return
	}
	if e.TriesLeft >= 0 && task.Tries > 0 {
		r.add("Tries left: ", display.Number(int64(e.TriesLeft)), " of ",
			display.Number(int64(task.MaxTries)), ".")
	}
	if !task.Deadline.IsZero() && task.Action != stint.External {
		r.add("It is aborted unless it has ended by its deadline, ",
			newMoment(task.Deadline, e.Now), ".")
	}
	if task.State != stint.StateReady && task.State != stint.StateInProgress && nobodyAsks(e) {
		s := silence(e)
		s[0].Text = strings.ToUpper(s[0].Text[:1]) + s[0].Text[1:]
		r.Details = append(r.Details, s)
	}
}

// originText says in a few words what an origin does, or what became of it.
func originText(task stint.TaskInfo) string {
	text := firstWords(task.Status)
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
