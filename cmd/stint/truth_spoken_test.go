//go:build unix

package main

import (
	"slices"

	"github.com/stint-tasks/stint"
)

const (
	at     = `(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)`
	quoted = `"((?:[^"\\]|\\.)*)"`
)

// spoken are the claims of the lines of an explanation.
func spoken() []claim {
	return slices.Concat(spokenEnds(), spokenWaits(), spokenOwned(), spokenReady(), spokenHolds(),
		spokenOthers(), spokenStart("starts", "when it starts", ""), spokenChances(),
		spokenSilence())
}

// spokenStart are the claims on when a task starts.
func spokenStart(starts, when, end string) []claim {
	isWaiting := in(stint.StateReady, stint.StateScheduled)
	isMoving := func(w *truth, task *taskTruth, _ []string) bool {
		isPaused, isKeyPaused := w.paused(task)
		return !isPaused && !isKeyPaused
	}
	because := func(w *truth, task *taskTruth, said []string) bool {
		isPaused, isKeyPaused := w.paused(task)
		holds, l := w.holds(task), w.limits[task.action]
		return map[string]bool{
			"you may not see the other tasks of its action": !w.mayList(task.action),
			"its action is paused":                          isPaused,
			"its key is paused":                             isKeyPaused && !isPaused,
			"the keys of its action take turns":             l != nil && l.Fair,
			"too few minutes tell how fast its action is handed out": task.state ==
				stint.StateReady && !isPaused && !isKeyPaused,
			"it waits for the end of a task with its key": slices.Contains(holds, "order") ||
				slices.Contains(holds, "key limit"),
		}[said[1]]
	}
	return []claim{
		claimOf("starts", starts+" in .*: (more than )?(none|[0-9,]+) before it(?:, .*)?"+end,
			isWaiting, isMoving, isAllSeen, func(w *truth, task *taskTruth, said []string) bool {
				n := max(0, number(said[2]))
				return said[1] == "" && n == w.before(task)
			}),
		claimOf("start unknown", when+" is unknown, because (.*?)"+end, isWaiting, because),
	}
}

func spokenEnds() []claim {
	return []claim{
		claimOf("completed", "completed at "+at, in(stint.StateCompleted), itsTime(1)),
		claimOf("aborted", "was aborted at "+at+": ([a-z ]+?)(?:: .*)?",
			in(stint.StateAborted), itsTime(1), isEnded(2)),
		claimOf("skipped", "was skipped at "+at+": (.*)",
			in(stint.StateSkipped), itsTime(1), isEnded(2)),
	}
}

func spokenWaits() []claim {
	return []claim{
		claimOf("blocked", `is blocked: it waits for (the first of )?(\d+)`,
			in(stint.StateBlocked), func(w *truth, task *taskTruth, said []string) bool {
				return number(said[2]) == w.unfinished(task) && (said[1] != "") == task.isAny()
			}),
		claimOf("more", `  and \d+ more`, in(stint.StateBlocked),
			func(w *truth, _ *taskTruth, _ []string) bool { return w.viewer != nil }),
		claimOf("not before", "not before "+at, in(stint.StateBlocked), itsTime(1), isLater),
		claimOf("scheduled", "is scheduled until "+at+", in .*",
			in(stint.StateScheduled), itsTime(1), isLater),
		claimOf("due", "is scheduled, and has been due since "+at+", for .*: nobody has made it "+
			"ready, as those do who ask for tasks or maintain",
			in(stint.StateScheduled), itsTime(1), isPast),
	}
}

func spokenOwned() []claim {
	const owned = "is in-progress: " + quoted + " (?:owns it|owned it)" +
		`( until ` + at + `)?(, and nobody has taken it back)?`
	return []claim{
		claimOf("owned", owned, in(stint.StateInProgress),
			func(w *truth, task *taskTruth, said []string) bool {
				return said[1] == task.owner.actor && (said[2] == "") == task.forEver &&
					(said[4] != "") == isPast(w, task, nil) &&
					(task.forEver || stamped(task.at, said[3]))
			}),
		claimOf("unwatched", "nobody watches the process of its owner: if that is gone, the task "+
			"stays with it( until the lease expires)?", isPresent(false, false),
			func(_ *truth, task *taskTruth, said []string) bool {
				return (said[1] == "") == task.forEver
			}),
		claimOf("gone", "the process of its owner is gone: a store that maintains hands it on",
			isPresent(false, true)),
	}
}

func spokenReady() []claim {
	return []claim{
		claimOf("waits", "is ready: it waits for an actor", isFree, isQueued, isTold),
		claimOf("hidden", "is ready: it waits for an actor, or for other tasks of its action, "+
			"which you may not see", isFree, isHidden),
		claimOf("parked", "is ready, but parked, though nothing holds it up any more: a store "+
			"that maintains puts it back into the queue", isFree, isParked, isAllSeen),
		claimOf("overdue", "is ready, but its deadline passed at "+at+": it is fetched no "+
			"more, and a store that maintains aborts it",
			in(stint.StateReady), isOverdue, itsDeadline(1)),
		claimOf("external", "is ready: it waits for an answer from outside(?:, until "+at+")?",
			isExternal, func(_ *truth, task *taskTruth, said []string) bool {
				return said[1] == "" && task.deadline.IsZero() || stamped(task.deadline, said[1])
			}),
		claimOf("held", "is ready, but", func(w *truth, task *taskTruth, _ []string) bool {
			return task.state == stint.StateReady && len(w.seen(task)) > 0
		}),
	}
}

func spokenHolds() []claim {
	return []claim{
		claimOf("paused", "  "+quoted+" has been paused since "+at, holding("paused"),
			isActionPaused(2)),
		claimOf("key paused", "  key "+quoted+" has been paused since "+at, holding("key paused"),
			itsKey(1), isKeyPaused(2)),
		claimOf("limit", `  (\d+) of (\d+) "\w+" tasks are in progress`, holding("limit"),
			isAllSeen, isInProgress),
		claimOf("order", "  tasks with key "+quoted+" come one at a time, in order, and one has "+
			"not ended", holding("order"), itsKey(1), isAllSeen),
		claimOf("key limit", `  (\d+) of (\d+) tasks with key `+quoted+` are in progress`,
			holding("key limit"), itsKey(3), isAllSeen, isKeyInProgress),
		claimOf("rate", `  the next token of "\w+" comes at `+at, holding("rate"), isAllSeen,
			func(w *truth, task *taskTruth, said []string) bool {
				return near(w.token(task.action), said[1])
			}),
		claimOf("key rate", "  the next token of key "+quoted+" comes at "+at, holding("key rate"),
			itsKey(1), isAllSeen, func(w *truth, task *taskTruth, said []string) bool {
				return near(w.keyToken(task), said[2])
			}),
		claimOf("turn", "  the turn of its key has not come", holding("turn"), isHidden),
		claimOf("turn", "  the turn of (?:key "+quoted+"|tasks without a key) (?:is next|comes "+
			`after (\d+) others?)`, holding("turn"), itsKey(1), isAllSeen,
			func(w *truth, task *taskTruth, said []string) bool {
				_, ahead := w.turnsAhead(task)
				return said[2] == "" && ahead == 0 || number(said[2]) == ahead
			}),
		claimOf("waiting", "  tasks with key "+quoted+` that wait: (\d+)`, itsKey(1), isAllSeen,
			isWaiting(2)),
	}
}

func spokenOthers() []claim {
	ofAction := func(w *truth, task *taskTruth, said []string) bool {
		other := w.byID[said[1]]
		return other != task && other.action == task.action && task.state == stint.StateReady
	}
	inState := func(w *truth, _ *taskTruth, said []string) bool {
		return string(w.byID[said[1]].state) == said[2]
	}
	ownedBy := func(w *truth, _ *taskTruth, said []string) bool {
		other := w.byID[said[1]]
		return other.state == stint.StateInProgress && other.owner.actor == said[2]
	}
	return []claim{
		claimOf("owner", "    "+quoted+", "+quoted+" own.*", isOther, isAllSeen, ofAction, ownedBy),
		claimOf("holder", "    "+quoted+", which is ([a-z]+)(?: until .*)?", isOther, isAllSeen,
			ofAction, inState),
		claimOf("before", "  "+quoted+` \(([a-z-]+)(?:: [^"]*)?\)`, isOther, isReason, inState),
		claimOf("before", "  "+quoted+` \((?:in-progress)\), `+quoted+" own.*", isOther, isReason,
			ownedBy),
	}
}

func spokenChances() []claim {
	return []claim{
		claimOf("tries", `tries left: (\d+) of (\d+)`, areTriesLeft),
		claimOf("deadline", "its deadline is "+at, isInTime, itsDeadline(1)),
		claimOf("passed", "its deadline passed at "+at+": a store that maintains aborts it",
			isOverdue, itsDeadline(1)),
	}
}

func spokenSilence() []claim {
	return []claim{
		claimOf("nobody asks", "nobody asks for "+quoted, isSilent,
			func(w *truth, task *taskTruth, _ []string) bool {
				return w.asked[task.action].IsZero()
			}),
		claimOf("nobody has asked", "nobody has asked for "+quoted+" since "+at+
			"(?:: no worker.*)?", isSilent, lastAsked(2)),
		claimOf("no slot", "actors that are registered for "+quoted+`: (\d+), but none has asked `+
			"for more(?: since "+at+")?: no slot is free.*", isBusy(2),
			func(w *truth, task *taskTruth, said []string) bool {
				return said[3] == "" && w.asked[task.action].IsZero() || lastAsked(3)(w, task, said)
			}),
	}
}

// itsKey is true if the sentence names the task's key, if any, in part n.
func itsKey(n int) isSo {
	return func(_ *truth, task *taskTruth, said []string) bool { return said[n] == task.limitKey }
}

// isActionPaused is true if the action has been paused since what the sentence says in part n.
func isActionPaused(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		l := w.limits[task.action]
		return l != nil && l.Paused != nil && stamped(*l.Paused, said[n])
	}
}

// isKeyPaused is true if the key has been paused since what the sentence says in part n.
func isKeyPaused(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		key := w.keys[[2]string{task.action, task.limitKey}]
		return key != nil && stamped(key.paused, said[n])
	}
}

// isInProgress is true if so many of so many tasks of the action are in progress.
func isInProgress(w *truth, task *taskTruth, said []string) bool {
	return number(said[1]) == w.inProgress(task.action) &&
		number(said[2]) == *w.limits[task.action].Concurrency
}

// isKeyInProgress is true if so many of so many tasks with the key are in progress.
func isKeyInProgress(w *truth, task *taskTruth, said []string) bool {
	return number(said[1]) == w.keyInProgress(task) &&
		number(said[2]) == *w.limits[task.action].PerKey
}

// isWaiting is true if as many tasks with the key are parked as the sentence says in part n.
func isWaiting(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		waiting := 0
		for _, other := range w.tasks {
			if other.action == task.action && other.limitKey == task.limitKey &&
				other.state == stint.StateReady && other.parked {
				waiting++
			}
		}
		return number(said[n]) == waiting
	}
}

func areTriesLeft(w *truth, task *taskTruth, said []string) bool {
	return !w.isFinal(task.key) && number(said[1]) == max(task.maxTries-task.tries, 0) &&
		number(said[2]) == task.maxTries
}

// lastAsked is true if somebody last asked for the action when the sentence says in part n.
func lastAsked(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		return stamped(w.asked[task.action], said[n])
	}
}

// isBusy is true if nobody asks for the action, but so many actors are registered for it.
func isBusy(n int) isSo {
	return func(w *truth, task *taskTruth, said []string) bool {
		return !w.isAsked(task.action) && number(said[n]) == w.actors[task.action] &&
			w.actors[task.action] > 0
	}
}

// isAllSeen is true if whoever asks may see all tasks of the action.
func isAllSeen(w *truth, task *taskTruth, _ []string) bool { return w.mayList(task.action) }

// isTold is true if whoever asks is told of every hold there can be.
func isTold(w *truth, task *taskTruth, said []string) bool { return !isHidden(w, task, said) }

// isHidden is true if limits hold up the tasks of the action, not all of which whoever asks sees.
func isHidden(w *truth, task *taskTruth, _ []string) bool {
	return !w.mayList(task.action) && w.limits[task.action] != nil
}
