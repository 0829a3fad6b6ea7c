package why

import (
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// ready says what a ready task waits for.
func (r *Reason) ready(e *stint.Explanation) {
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
		r.Add("There is no worker for this action, or none with a free slot.")
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
		r.Add("A store that maintains puts it back into the queue.")
	case !e.IsAsked() && e.Copy == "":
		r.Headline = show.Say("Ready: it waits for a free slot.")
		r.Add(show.Capital(silence(e))...)
	default:
		r.Headline = show.Say("Ready: it waits for an actor.")
	}
	r.left(e)
}

// left says what is left of budgets that are not spent.
func (r *Reason) left(e *stint.Explanation) {
	l := e.Limits
	if l == nil || !l.Limits.ByCost || l.Hidden {
		return
	}
	if l.Limits.Rate.Tasks > 0 && l.NextAt.IsZero() {
		r.Add("Left of the budget of its action: ", whole(l.Tokens), ".")
	}
	if l.Limits.RatePerKey.Tasks > 0 && e.Task.Key != "" && l.KeyNextAt.IsZero() {
		r.Add("Left of the budget of its key: ", whole(l.KeyTokens), ".")
	}
}

// owed says what a bucket that has no tokens owes.
func owed(tokens float64) string {
	if tokens > -1 {
		return ""
	}
	return ", and owes " + whole(-tokens)
}

func whole(tokens float64) string { return display.Number(int64(tokens)) }

// waitsForTurnOnly reports whether nothing holds a task up but that it is not its turn, which is
// dealt to those who ask.
func waitsForTurnOnly(l *stint.TaskLimits) bool {
	alone := *l
	alone.WaitsForTurn = false
	return len(heldBy(&stint.Explanation{Limits: &alone})) == 0
}

// nobodyAsks reports whether no actor seems to be there for the task's action. In a copy, where who
// asks is refused, one cannot tell.
func nobodyAsks(e *stint.Explanation) bool {
	return e.Task.Action != stint.Spontaneous && e.Task.Action != stint.External &&
		!e.IsAsked() && e.Actors == 0 && e.Copy == ""
}

// silence says that nobody asks for the action of a task.
func (r *Reason) silence(e *stint.Explanation) {
	if nobodyAsks(e) {
		r.Add(show.Capital(silence(e))...)
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
		add("the "+rateOf(l)+" of ", action, " is used up"+owed(l.Tokens)+
			": the next task may begin ",
			show.NewMoment(l.NextAt, e.Now), ".")
	}
	if !l.KeyNextAt.IsZero() {
		add("the "+rateOf(l)+" of its key is used up"+owed(l.KeyTokens)+
			": the next task with the key "+key+" may begin ",
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

// rateOf is what a rate is called.
func rateOf(l *stint.TaskLimits) string {
	if l.Limits.ByCost {
		return "budget"
	}
	return "rate"
}
