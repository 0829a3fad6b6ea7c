// Package join compares what callers were told with what the server has committed.
package join

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/docs/design"
	"github.com/stint-tasks/stint/internal/numbering"
)

// A Move is a change of the state of a task that was committed.
type Move struct {
	ID       stint.TaskID
	Key      int64
	From, To design.State
	Claim    int64 // of the owner behind the move, or else ahead of it
}

// An End is the state of a task when nothing happens any more.
type End struct {
	State stint.State
	Cause string // why it was aborted
	At    int64  // when, in microseconds
}

// Input is what is compared.
type Input struct {
	Calls []work.Call
	// Moves are those of the round in their order; nil if they are not known.
	Moves []Move
	// Ends are the states of all tasks of the round.
	Ends map[stint.TaskID]End
	// Followed are those of them whose ends somebody has followed; nil: nobody has.
	Followed map[stint.TaskID]End
	// Receipts are the rows that callers committed together with the ends of tasks whose IDs begin
	// with Prefix: a round before, whose fault could not be tried, may have left others.
	Receipts []work.Item
	Prefix   string
	// Loses says that acknowledged commits may be lost.
	Loses bool
	// Replaces says that the moves are those of one server of several.
	Replaces bool
}

// A Violation is a broken promise.
type Violation struct {
	Process string
	Call    int
	Task    stint.TaskID
	Text    string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s, call %d, task %q: %s", v.Process, v.Call, v.Task, v.Text)
}

// Found is what a comparison has found.
type Found struct {
	Inserted   int // tasks whose insertion was acknowledged
	Violations []Violation
}

// Join compares. If acknowledged commits may be lost, it compares only what was told.
func Join(in Input) Found {
	j := newJoiner(in)
	for i := range in.Calls {
		j.read(&in.Calls[i])
	}
	j.countInserts()
	j.judgeReturns()
	if !in.Loses {
		j.judgeInserts()
		j.judgeEnds()
		j.judgeWaits()
		j.judgeTold()
		if in.Moves != nil && !in.Replaces {
			j.judgeMoves()
		}
	}
	slices.SortStableFunc(j.found.Violations, func(a, b Violation) int {
		return strings.Compare(string(a.Task), string(b.Task))
	})
	return j.found
}

// A performance is a fetch of a task.
type performance struct{ key, claim int64 }

// A said is an item of a call.
type said struct {
	call    *work.Call
	item    *work.Item
	outcome work.Outcome
}

// A life is what was said about a task.
type life struct {
	inserts, fetches, returns, changes, waits, fences, told []said
	// waiting says that it waited for others.
	waiting bool
}

// lives says that the task may have begun anew, so that its end tells little of what was before.
func (l *life) lives() bool { return len(l.changes) > 0 || len(l.inserts) > 1 }

type joiner struct {
	in    Input
	lives map[stint.TaskID]*life
	// killed are the processes that did not end by themselves: they may not have come to write down
	// what they did last.
	killed map[string]bool
	found  Found
}

func newJoiner(in Input) *joiner {
	j := &joiner{in: in, lives: map[stint.TaskID]*life{}, killed: map[string]bool{}}
	for i := range in.Calls {
		j.killed[in.Calls[i].Process] = true
	}
	for i := range in.Calls {
		if in.Calls[i].Verb == work.Gone {
			j.killed[in.Calls[i].Process] = false
		}
	}
	return j
}

func (j *joiner) violated(s said, format string, args ...any) {
	j.found.Violations = append(j.found.Violations, Violation{
		Process: s.call.Process, Call: s.call.Number, Task: s.item.ID,
		Text: s.call.Verb + ": " + fmt.Sprintf(format, args...),
	})
}

// read files what a call says about its tasks.
func (j *joiner) read(call *work.Call) {
	for i := range call.Items {
		s := said{call, &call.Items[i], call.Of(i)}
		l := j.lives[s.item.ID]
		if l == nil {
			l = &life{}
			j.lives[s.item.ID] = l
		}
		if s.item.Said == work.Waiting && s.outcome != work.Refused {
			l.waiting = true
		}
		switch work.KindOf(call.Verb) {
		case work.Inserts:
			l.inserts = append(l.inserts, s)
		case work.Fetches:
			l.fetches = append(l.fetches, s)
		case work.Returns:
			l.returns = append(l.returns, s)
		case work.Changes:
			if s.outcome != work.Refused {
				l.changes = append(l.changes, s)
			}
		case work.Waits:
			l.waits = append(l.waits, s)
		case work.Fences:
			l.fences = append(l.fences, s)
		case work.Ends:
			l.told = append(l.told, s)
		default:
		}
	}
}

func performanceOf(item *work.Item) performance {
	if item.Token == nil {
		return performance{}
	}
	key, claim := numbering.Of(*item.Token, string(item.ID))
	return performance{key, claim}
}

// isFinal says whether a return would end its task.
func isFinal(s said) bool {
	code := stint.StatusCode(s.item.Said)
	return code == stint.StatusCompleted || code == stint.StatusAborted
}

// judgeReturns looks for tasks that were ended twice, and for owners that were obeyed though they
// had lost their task.
func (j *joiner) judgeReturns() {
	for _, l := range j.lives {
		ends := map[performance]said{}
		for _, s := range l.returns {
			if s.outcome != work.OK {
				continue
			}
			if isFinal(s) {
				ends[performanceOf(s.item)] = s
			}
			j.judgeStale(l, s)
		}
		if len(ends) > 1+len(l.changes) && !j.in.Loses && len(l.inserts) <= 1 {
			for _, s := range ends {
				j.violated(s, "it was accepted, and so were returns of %d other owners",
					len(ends)-1)
				break
			}
		}
	}
}

// judgeStale finds an accepted return of an owner after another one was given the task.
func (j *joiner) judgeStale(l *life, s said) {
	if s.item.Error == work.AlreadyReturned || j.in.Loses {
		return // it says what was
	}
	own := performanceOf(s.item)
	var fetched *said
	for i := range l.fetches {
		if performanceOf(l.fetches[i].item) == own {
			fetched = &l.fetches[i]
		}
	}
	for _, f := range l.fetches {
		if fetched != nil && performanceOf(f.item) != own && f.outcome == work.OK &&
			f.call.Begin > fetched.call.End && f.call.End < s.call.Begin {
			j.violated(s, "it was accepted, though %s had been given the task in call %d",
				f.call.Process, f.call.Number)
		}
	}
}

// countInserts counts the tasks whose insertion was acknowledged.
func (j *joiner) countInserts() {
	for _, l := range j.lives {
		if slices.ContainsFunc(l.inserts, func(s said) bool { return s.outcome == work.OK }) {
			j.found.Inserted++
		}
	}
}

// judgeInserts looks for tasks whose insertion was acknowledged and that are not there.
func (j *joiner) judgeInserts() {
	for id, l := range j.lives {
		_, there := j.in.Ends[id]
		// What waits for tasks that are all deleted goes with them.
		if there || len(l.changes) > 0 || l.waiting {
			continue
		}
		for _, s := range l.inserts {
			if s.outcome == work.OK {
				j.violated(s, "it was acknowledged, and the task is not there")
			}
		}
	}
}

// judgeEnds compares the last accepted return with how the task has ended.
func (j *joiner) judgeEnds() {
	for id, l := range j.lives {
		end, there := j.in.Ends[id]
		if l.lives() || !there {
			continue
		}
		for _, s := range l.returns {
			if s.outcome != work.OK || !isFinal(s) {
				continue
			}
			switch {
			case s.item.Said == string(stint.StatusCompleted) && end.State != stint.StateCompleted,
				s.item.Said == string(stint.StatusAborted) &&
					(end.State != stint.StateAborted || end.Cause != string(stint.CauseReturned)):
				j.violated(s, "it was accepted as %s, and the task is %s %s", s.item.Said,
					end.State, end.Cause)
			}
		}
	}
}

// judgeWaits compares what waiters were told with how the tasks have ended: with all the ends that
// each had, or with the last one if nothing can have begun anew.
func (j *joiner) judgeWaits() {
	ends, retried := map[stint.TaskID]map[string]bool{}, false
	for _, m := range j.in.Moves {
		if ends[m.ID] == nil {
			ends[m.ID] = map[string]bool{}
		}
		ends[m.ID][m.To.Name] = true
	}
	for i := range j.in.Calls {
		call := &j.in.Calls[i]
		retried = retried || work.KindOf(call.Verb) == work.Changes && call.Outcome != work.Refused
	}
	known := j.in.Moves != nil && !j.in.Replaces
	for id, l := range j.lives {
		end, there := j.in.Ends[id]
		for _, s := range slices.Concat(l.waits, l.told) {
			switch {
			case s.outcome != work.OK:
			case known && !ends[id][s.item.Said]:
				j.violated(s, "the answer was %s, and the task never was", s.item.Said)
			case !known && !retried && there && s.item.Said != string(end.State):
				j.violated(s, "the answer was %s, and the task is %s", s.item.Said, end.State)
			}
		}
	}
}
