//go:build unix

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A claim is a sentence that a command or a page may say of a task, with what it means.
type claim struct {
	name string
	form *regexp.Regexp
	is   func(w *truth, task *taskTruth, said []string) bool
}

func claimOf(
	name, form string, is func(w *truth, task *taskTruth, said []string) bool,
) claim {
	return claim{name, regexp.MustCompile("^(?:" + form + ")$"), is}
}

// stamped reports whether a time is what a sentence says to the second.
func stamped(at time.Time, said string) bool {
	layout := "2006-01-02 15:04:05Z"
	return at.UTC().Format(layout) == said
}

func number(said string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(said, ",", ""))
	if err != nil {
		return -1
	}
	return n
}

// unmet are the predecessors that ended otherwise than a task needs, as far as the edges tell
// without results, which no task here asks for.
func (w *truth) unmet(task *taskTruth) (unmet, skipped int) {
	for _, edge := range task.before {
		before := w.tasks[edge.after]
		if before == nil || !w.isFinal(edge.after) {
			continue
		}
		bit := int16(2)
		switch before.state {
		case stint.StateCompleted:
			bit = 1
		case stint.StateSkipped:
			bit = 4
		default:
		}
		met := before.state == stint.StateCompleted
		if edge.accepts != nil {
			met = *edge.accepts&bit != 0
		}
		if !met {
			unmet++
			if before.state == stint.StateSkipped {
				skipped++
			}
		}
	}
	return unmet, skipped
}

func (w *truth) unfinished(task *taskTruth) (n int) {
	for _, edge := range task.before {
		if !w.isFinal(edge.after) {
			n++
		}
	}
	return n
}

func (w *truth) isOverdue(task *taskTruth) bool {
	return !task.deadline.IsZero() && !task.deadline.After(w.now) && !w.isFinal(task.key)
}

func in(state stint.State) func(*truth, *taskTruth, []string) bool {
	return func(_ *truth, task *taskTruth, _ []string) bool { return task.state == state }
}

// holding is true if the task is ready and held up so.
func holding(name string) func(*truth, *taskTruth, []string) bool {
	return func(w *truth, task *taskTruth, _ []string) bool {
		for _, hold := range w.holds(task) {
			if hold == name && task.state == stint.StateReady {
				return true
			}
		}
		return false
	}
}

// isFree is true of a ready task that nothing holds up.
func isFree(w *truth, task *taskTruth) bool {
	return task.state == stint.StateReady && !w.isOverdue(task) && len(w.holds(task)) == 0
}

// isSilent reports whether nobody asks for the action of a task, though nobody is registered.
func isSilent(w *truth, task *taskTruth) bool {
	return !w.isAsked(task.action) && w.actors[task.action] == 0
}

func endedBy(w *truth, task *taskTruth, words string) bool {
	unmet, _ := w.unmet(task)
	return map[string]bool{
		"its owner aborted it":                  task.cause == 1,
		"it ran out of tries":                   task.cause == 2,
		"a predecessor was aborted":             task.cause == 3 && unmet > 0,
		"a task that it waited for was aborted": task.cause == 3 && unmet > 0,
		"it was cancelled":                      task.cause == 4,
		"it was replaced":                       task.cause == 5,
		"its deadline passed":                   task.cause == 6,
		"a predecessor was skipped":             w.skippedFor(task, true),
		"a task that it waited for was skipped": w.skippedFor(task, true),
		"its condition cannot be met":           w.skippedFor(task, false),
		"an answer said so, or its condition " +
			"cannot be met": task.state == stint.StateSkipped && task.action == stint.External,
	}[words]
}

func (w *truth) skippedFor(task *taskTruth, bySkipped bool) bool {
	unmet, skipped := w.unmet(task)
	return task.state == stint.StateSkipped && unmet > 0 && (!bySkipped || skipped > 0)
}

const (
	at     = `(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)`
	quoted = `"((?:[^"\\]|\\.)*)"`
)

// spoken are the claims of the lines of an explanation.
func spoken() []claim {
	readyAt := func(_ *truth, task *taskTruth, said []string) bool {
		return stamped(task.at, said[1])
	}
	both := func(all ...func(*truth, *taskTruth, []string) bool) func(
		*truth, *taskTruth, []string) bool {
		return func(w *truth, task *taskTruth, said []string) bool {
			for _, is := range all {
				if !is(w, task, said) {
					return false
				}
			}
			return true
		}
	}
	return []claim{
		claimOf("completed", "completed at "+at, both(in(stint.StateCompleted), readyAt)),
		claimOf("aborted", "was aborted at "+at+": ([a-z ]+?)(?:: .*)?",
			both(in(stint.StateAborted), readyAt,
				func(w *truth, task *taskTruth, said []string) bool {
					return endedBy(w, task, said[2])
				})),
		claimOf("skipped", "was skipped at "+at+": (.*)", both(in(stint.StateSkipped), readyAt,
			func(w *truth, task *taskTruth, said []string) bool {
				return endedBy(w, task, said[2])
			})),
		claimOf("blocked", `is blocked: it waits for (?:the first of )?(\d+)`,
			both(in(stint.StateBlocked), func(w *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == w.unfinished(task)
			})),
		claimOf("scheduled", "is scheduled until "+at+", in .*", both(in(stint.StateScheduled),
			readyAt, func(w *truth, task *taskTruth, _ []string) bool {
				return task.at.After(w.now)
			})),
		claimOf("due", "is scheduled, and has been due since "+at+", for .*: nobody has made it "+
			"ready, as those do who ask for tasks or maintain", both(in(stint.StateScheduled),
			readyAt, func(w *truth, task *taskTruth, _ []string) bool {
				return !task.at.After(w.now)
			})),
		claimOf("owned", "is in-progress: "+quoted+" (?:owns it|owned it)"+
			`( until `+at+`)?(, and nobody has taken it back)?`, both(in(stint.StateInProgress),
			func(w *truth, task *taskTruth, said []string) bool {
				expired := !task.forEver && !task.at.After(w.now)
				return said[1] == task.owner.actor && (said[2] == "") == task.forEver &&
					(said[4] != "") == expired && (task.forEver || stamped(task.at, said[3]))
			})),
		claimOf("unwatched", "nobody watches the process of its owner: if that is gone, the task "+
			"stays with it( until the lease expires)?", both(in(stint.StateInProgress),
			func(w *truth, task *taskTruth, said []string) bool {
				_, known := w.watched[task.owner]
				return !known && (said[1] == "") == task.forEver
			})),
		claimOf("gone", "the process of its owner is gone: a store that maintains hands it on",
			both(in(stint.StateInProgress), func(w *truth, task *taskTruth, _ []string) bool {
				lives, known := w.watched[task.owner]
				return known && !lives
			})),
		claimOf("waits", "is ready: it waits for an actor",
			func(w *truth, task *taskTruth, _ []string) bool {
				return isFree(w, task) && !task.parked && task.action != stint.External
			}),
		claimOf("parked", "is ready, but parked, though nothing holds it up any more: a store "+
			"that maintains puts it back into the queue",
			func(w *truth, task *taskTruth, _ []string) bool {
				return isFree(w, task) && task.parked
			}),
		claimOf("overdue", "is ready, but its deadline passed at "+at+": it is handed out no "+
			"more, and a store that maintains aborts it", both(in(stint.StateReady),
			func(w *truth, task *taskTruth, said []string) bool {
				return w.isOverdue(task) && stamped(task.deadline, said[1])
			})),
		claimOf("external", "is ready: it waits for an answer from outside(?:, until "+at+")?",
			both(in(stint.StateReady), func(w *truth, task *taskTruth, said []string) bool {
				return task.action == stint.External && !w.isOverdue(task) &&
					(said[1] == "" && task.deadline.IsZero() || stamped(task.deadline, said[1]))
			})),
		claimOf("held", "is ready, but", func(w *truth, task *taskTruth, _ []string) bool {
			return task.state == stint.StateReady && len(w.holds(task)) > 0
		}),
		claimOf("paused", "  "+quoted+" has been paused since .*", holding("paused")),
		claimOf("key paused", "  key "+quoted+" has been paused since .*", holding("key paused")),
		claimOf("limit", `  (\d+) of (\d+) "\w+" tasks are in progress`, both(holding("limit"),
			func(w *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == w.inProgress(task.action) &&
					number(said[2]) == *w.limits[task.action].Concurrency
			})),
		claimOf("order", "  tasks with key "+quoted+" come one at a time, in order, and one has "+
			"not ended", holding("order")),
		claimOf("key limit", `  (\d+) of (\d+) tasks with key `+quoted+` are in progress`,
			both(holding("key limit"), func(w *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == w.keyInProgress(task)
			})),
		claimOf("rate", `  the next token of "\w+" comes at `+at, both(holding("rate"),
			func(w *truth, task *taskTruth, said []string) bool {
				return near(w.token(task.action), said[1])
			})),
		claimOf("key rate", "  the next token of key "+quoted+" comes at "+at,
			both(holding("key rate"), func(w *truth, task *taskTruth, said []string) bool {
				return near(w.keyToken(task), said[2])
			})),
		claimOf("turn", "  the turn of (?:key "+quoted+"|tasks without a key) (?:is next|comes "+
			`after (\d+) others?)`, both(holding("turn"),
			func(w *truth, task *taskTruth, said []string) bool {
				_, ahead := w.turnsAhead(task)
				return said[2] == "" && ahead == 0 || number(said[2]) == ahead
			})),
		claimOf("waiting", "  tasks with key "+quoted+` that wait: (\d+)`,
			func(w *truth, task *taskTruth, said []string) bool {
				n := 0
				for _, other := range w.tasks {
					if other.action == task.action && other.limitKey == task.limitKey &&
						other.state == stint.StateReady && other.parked {
						n++
					}
				}
				return number(said[2]) == n
			}),
		claimOf("owner", "    "+quoted+", "+quoted+" own.*", namesOwned),
		claimOf("holder", "    "+quoted+", which is ([a-z]+)(?: until .*)?", namesOther),
		claimOf("before", "  "+quoted+` \(([a-z-]+)(?:: .*)?\)(?:, .*)?`, namesOther),
		claimOf("tries", `tries left: (\d+) of (\d+)`,
			func(_ *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == max(task.maxTries-task.tries, 0) &&
					number(said[2]) == task.maxTries
			}),
		claimOf("deadline", "its deadline is "+at,
			func(w *truth, task *taskTruth, said []string) bool {
				return task.deadline.After(w.now) && stamped(task.deadline, said[1])
			}),
		claimOf("passed", "its deadline passed at "+at+": a store that maintains aborts it",
			func(w *truth, task *taskTruth, said []string) bool {
				return w.isOverdue(task) && stamped(task.deadline, said[1])
			}),
		claimOf("not before", "not before "+at, both(in(stint.StateBlocked), readyAt,
			func(w *truth, task *taskTruth, _ []string) bool { return task.at.After(w.now) })),
		claimOf("nobody asks", "nobody asks for "+quoted,
			func(w *truth, task *taskTruth, _ []string) bool {
				return isSilent(w, task) && w.asked[task.action].IsZero()
			}),
		claimOf("nobody has asked",
			"nobody has asked for "+quoted+" since "+at+"(?:: no worker.*)?",
			func(w *truth, task *taskTruth, said []string) bool {
				return isSilent(w, task) && stamped(w.asked[task.action], said[2])
			}),
		claimOf("no slot", "actors that are registered for "+quoted+`: (\d+), but none has asked `+
			"for more(?: since "+at+")?: no slot is free.*",
			func(w *truth, task *taskTruth, said []string) bool {
				return !w.isAsked(task.action) && number(said[2]) == w.actors[task.action] &&
					number(said[2]) > 0
			}),
	}
}

// near reports whether a time is what a sentence says, but for the time between two looks.
func near(at time.Time, said string) bool {
	told, err := time.Parse("2006-01-02 15:04:05Z", said)
	return err == nil && !at.IsZero() && told.Sub(at).Abs() < time.Minute
}

func namesOwned(w *truth, _ *taskTruth, said []string) bool {
	other := w.byID[said[1]]
	return other != nil && other.state == stint.StateInProgress && other.owner.actor == said[2]
}

func namesOther(w *truth, _ *taskTruth, said []string) bool {
	other := w.byID[said[1]]
	return other != nil && string(other.state) == said[2]
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
