//go:build unix

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A claim is a sentence that a command or a page may say of a task, with what it means.
type claim struct {
	name string
	form *regexp.Regexp
	is   isSo
}

// An isSo reports whether a sentence is so of a task; said are the parts of it that its form names.
type isSo func(w *truth, task *taskTruth, said []string) bool

func claimOf(name, form string, all ...isSo) claim {
	return claim{name, regexp.MustCompile("^(?:" + form + ")$"), allOf(all...)}
}

// allOf is true where all of some are.
func allOf(all ...isSo) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		return !slices.ContainsFunc(all, func(is isSo) bool { return !is(w, task, said) })
	}
}

// stamped reports whether a time is what a sentence says, to the second or exactly.
func stamped(at time.Time, said string) bool {
	return !at.IsZero() && (at.UTC().Format("2006-01-02 15:04:05Z") == said ||
		at.UTC().Format("2006-01-02T15:04:05.000Z") == said)
}

// near reports whether a time is what a sentence says, but for the time between two looks.
func near(at time.Time, said string) bool {
	told, err := time.Parse("2006-01-02 15:04:05Z", said)
	if err != nil {
		told, err = time.Parse("2006-01-02T15:04:05.000Z", said)
	}
	return err == nil && !at.IsZero() && told.Sub(at).Abs() < time.Minute
}

func number(said string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(said, ",", ""))
	if err != nil {
		return -1
	}
	return n
}

func in(states ...stint.State) isSo {
	return func(_ *truth, task *taskTruth, _ []string) bool {
		return slices.Contains(states, task.state)
	}
}

// itsTime is true if the task's time is what the sentence says in part n.
func itsTime(n int) isSo {
	return func(_ *truth, task *taskTruth, said []string) bool {
		return !task.forEver && stamped(task.at, said[n])
	}
}

// itsDeadline is true if the task's deadline is what the sentence says in part n.
func itsDeadline(n int) isSo {
	return func(_ *truth, task *taskTruth, said []string) bool {
		return stamped(task.deadline, said[n])
	}
}

// isLater is true if the task's time is to come.
func isLater(w *truth, task *taskTruth, _ []string) bool { return task.at.After(w.now) }

// isPast is true if the task's time has come.
func isPast(w *truth, task *taskTruth, _ []string) bool {
	return !task.forEver && !task.at.After(w.now)
}

func isOverdue(w *truth, task *taskTruth, _ []string) bool { return w.isOverdue(task) }

func isInTime(w *truth, task *taskTruth, _ []string) bool { return task.deadline.After(w.now) }

func isExternal(w *truth, task *taskTruth, _ []string) bool {
	return task.state == stint.StateReady && task.action == stint.External && !w.isOverdue(task)
}

// holding is true if the task is ready and held up so.
func holding(name string) isSo {
	return func(w *truth, task *taskTruth, _ []string) bool {
		return task.state == stint.StateReady && slices.Contains(w.holds(task), name)
	}
}

// isFree is true of a ready task that nothing holds up, or nothing that whoever asks may see.
func isFree(w *truth, task *taskTruth, _ []string) bool {
	return task.state == stint.StateReady && task.action != stint.External &&
		!w.isOverdue(task) && len(w.seen(task)) == 0
}

func isParked(_ *truth, task *taskTruth, _ []string) bool { return task.parked }

func isQueued(_ *truth, task *taskTruth, _ []string) bool { return !task.parked }

// isSilent reports whether nobody asks for the action of a task, though nobody is registered.
func isSilent(w *truth, task *taskTruth, _ []string) bool {
	return !w.isAsked(task.action) && w.actors[task.action] == 0
}

// isPresent is true if that is so of the process of the task's owner: alive, and known at all.
func isPresent(lives, known bool) isSo {
	return func(w *truth, task *taskTruth, _ []string) bool {
		l, k := w.watched[task.owner]
		return task.state == stint.StateInProgress && l == lives && k == known
	}
}

// unmet are the predecessors that ended otherwise than a task needs.
func (w *truth) unmet(task *taskTruth) (unmet, skipped int) {
	for _, edge := range task.before {
		before := w.tasks[edge.after]
		if before != nil && w.isFinal(edge.after) && !edge.isMet(task, before) {
			unmet++
			if before.state == stint.StateSkipped {
				skipped++
			}
		}
	}
	return unmet, skipped
}

// isMet reports whether a predecessor that has ended lets a task start, as far as this edge goes.
func (e edgeTruth) isMet(task, before *taskTruth) bool {
	if e.accepts == nil {
		return before.state == stint.StateCompleted || task.runsAnyway
	}
	bit := map[stint.State]int16{stint.StateCompleted: 1, stint.StateSkipped: 4}[before.state]
	if bit == 0 {
		bit = 2
	}
	isAmong := e.results == nil || before.state != stint.StateCompleted ||
		slices.ContainsFunc(e.results, func(r []byte) bool { return string(r) == before.result })
	return *e.accepts&bit != 0 && isAmong
}

func (w *truth) unfinished(task *taskTruth) (n int) {
	for _, edge := range task.before {
		if !w.isFinal(edge.after) {
			n++
		}
	}
	return n
}

// isReason is true if the sentence names in its first part a predecessor because of which the task
// does not run.
func isReason(w *truth, task *taskTruth, said []string) bool {
	other := w.byID[said[1]]
	return other != nil && slices.ContainsFunc(task.before, func(edge edgeTruth) bool {
		ended := w.isFinal(other.key)
		if task.state == stint.StateCompleted && task.isAny() {
			return false // another predecessor let it start
		}
		return edge.after == other.key && (!ended && task.state == stint.StateBlocked ||
			ended && w.isFinal(task.key) && !edge.isMet(task, other))
	})
}

// isOther is true if the sentence names in its first part a task that whoever asks may see.
func isOther(w *truth, _ *taskTruth, said []string) bool {
	other := w.byID[said[1]]
	return other != nil && w.mayRead(other)
}

// isEnded is true if the sentence says in part n why the task ended.
func isEnded(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		return w.isEndedBy(task, said[n])
	}
}

func (w *truth) isEndedBy(task *taskTruth, words string) bool {
	unmet, skipped := w.unmet(task)
	isSkipped := task.state == stint.StateSkipped
	bySkipped := isSkipped && skipped > 0 && (skipped == unmet || w.viewer != nil)
	byDependency := task.cause == 3
	return map[string]bool{
		"its owner aborted it":                  task.cause == 1 && task.action != stint.External,
		"an answer said so":                     task.cause == 1 && task.action == stint.External,
		"it ran out of tries":                   task.cause == 2,
		"a predecessor was aborted":             byDependency,
		"a task that it waited for was aborted": byDependency,
		"it was cancelled":                      task.cause == 4,
		"it was replaced":                       task.cause == 5,
		"its deadline passed":                   task.cause == 6,
		"a predecessor was skipped":             bySkipped,
		"a task that it waited for was skipped": bySkipped,
		// Of a predecessor that was replaced no edge is left.
		"its condition cannot be met": isSkipped &&
			(unmet == 0 || skipped < unmet || w.viewer != nil),
		"an answer said so, or its condition cannot be met": isSkipped &&
			task.action == stint.External && (unmet == 0 || w.viewer != nil),
	}[words]
}

// wrong checks lines against the claims, and returns what is not so, with the names of the claims
// that were made.
func (w *truth) wrong(task *taskTruth, claims []claim, lines []string) (lies, made []string) {
	for _, line := range lines {
		known := false
		for _, c := range claims {
			said := c.form.FindStringSubmatch(line)
			if said == nil {
				continue
			}
			known = true
			made = append(made, c.name)
			if !c.is(w, task, said) {
				lies = append(lies, fmt.Sprintf("%q is not so (%s)", line, c.name))
			}
		}
		if !known {
			lies = append(lies, fmt.Sprintf("%q is no sentence that is known here", line))
		}
	}
	return lies, made
}

// lacks returns what is not said of a task though it should be.
func (w *truth) lacks(task *taskTruth, made []string) (lacking []string) {
	want := func(names ...string) {
		if !slices.ContainsFunc(names, func(name string) bool {
			return slices.Contains(made, name)
		}) {
			lacking = append(lacking, fmt.Sprintf("nothing is said of %q", names))
		}
	}
	if task.state == stint.StateReady {
		w.wantReasons(task, want)
		return lacking
	}
	want(map[stint.State][]string{
		stint.StateScheduled: {"scheduled", "due"}, stint.StateInProgress: {"owned"},
		stint.StateBlocked: {"blocked"}, stint.StateCompleted: {"completed"},
		stint.StateSkipped: {"skipped"}, stint.StateAborted: {"aborted"},
	}[task.state]...)
	if lives, known := w.watched[task.owner]; task.state == stint.StateInProgress && !lives &&
		(task.forEver || task.at.After(w.now)) {
		want(map[bool]string{true: "gone", false: "unwatched"}[known])
	}
	if w.isOverdue(task) {
		want("passed")
	}
	isWaiting := task.state == stint.StateBlocked || task.state == stint.StateScheduled
	if isWaiting && task.action != stint.External && isSilent(w, task, nil) {
		want("nobody asks", "nobody has asked")
	}
	return lacking
}

// wantReasons calls want with the names of what has to be said of a ready task.
func (w *truth) wantReasons(task *taskTruth, want func(names ...string)) {
	silence := []string{"nobody asks", "nobody has asked"}
	holds := w.seen(task)
	switch {
	case w.isOverdue(task):
		want("overdue")
		return
	case task.action == stint.External:
		want("external")
		return
	case len(holds) == 0 && len(w.holds(task)) > 0:
		want(append(silence, "hidden")...)
	case len(holds) == 0:
		want(append(silence, "waits", "free slot", "parked", "hidden")...)
	}
	for _, hold := range holds {
		want(hold)
	}
	if isSilent(w, task, nil) {
		want(silence...)
	}
}

// missed are the tasks that hold up a blocked task, or made it fall, of which nothing is said.
func (w *truth) missed(task *taskTruth, text string) (ids []string) {
	const most = 100
	for id, other := range w.byID {
		if isReason(w, task, []string{"", id}) && len(task.before) < most && w.mayRead(other) &&
			(task.state != stint.StateAborted || task.cause == 3) &&
			!strings.Contains(text, strconv.Quote(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}
