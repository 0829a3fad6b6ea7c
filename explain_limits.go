package stint

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// TaskLimits is how limits and pauses hold up a ready task. [ActionLimits] tells of its whole
// action.
type TaskLimits struct {
	Limits Limits // of the task's action

	// PausedSince is since when the action is paused, KeyPausedSince since when the task's key is;
	// zero if it is not.
	PausedSince    time.Time
	KeyPausedSince time.Time

	// InProgress is how many tasks with the action are in progress, if Limits.Concurrency is set,
	// and KeyInProgress how many of these have the task's key, if Limits.ConcurrencyPerKey is.
	// Counting stops at 100,000 rows. Owned are up to 100 of them, KeyOwned up to 100 of those with
	// the key.
	InProgress    int
	Owned         []TaskInfo
	KeyInProgress int
	KeyOwned      []TaskInfo

	// NextAt is when the bucket of Limits.Rate has its next token, KeyNextAt when that of the key
	// has; zero if it has one.
	NextAt    time.Time
	KeyNextAt time.Time

	// KeyWaiting is how many ready tasks with the key wait for room below a limit of the key, for
	// the end of its pause, or for its turn: this one, too, if it is among them. Counting stops at
	// 10,000: KeyWaitingOrMore says that there may be more.
	KeyWaiting       int
	KeyWaitingOrMore bool

	// WaitsForTurn says that Limits.Fair makes the task wait for the turn of its key. TurnsAhead is
	// how many turns come first, one for each key and priority that has any; counting stops at
	// 10,000. Those of keys with more weight may come more than once.
	WaitsForTurn bool
	TurnsAhead   int
}

const explainedWaitingMax = 10_000

// readTaskLimits reads what holds up a task, nil if it is not ready or has no limits.
func readTaskLimits(rows pgx.Rows) (*TaskLimits, error) {
	var limits *TaskLimits
	for rows.Next() {
		limits = &TaskLimits{}
		var concurrency, perKey *int
		var rate, key readRate
		var pausedAt, keyPausedAt, nextAt, keyNextAt *time.Time
		err := rows.Scan(&concurrency, &perKey, &rate.tasks, &rate.per, &rate.burst,
			&key.tasks, &key.per, &key.burst, &limits.Limits.Fair, &pausedAt, &keyPausedAt,
			&limits.InProgress, &limits.KeyInProgress, &nextAt, &keyNextAt, &limits.KeyWaiting,
			&limits.WaitsForTurn, &limits.TurnsAhead)
		if err != nil {
			return nil, err
		}
		limits.Limits.Concurrency = orZero(concurrency)
		limits.Limits.ConcurrencyPerKey = orZero(perKey)
		limits.Limits.Rate, limits.Limits.RatePerKey = rate.rate(), key.rate()
		limits.PausedSince, limits.KeyPausedSince = orZero(pausedAt), orZero(keyPausedAt)
		limits.NextAt, limits.KeyNextAt = orZero(nextAt), orZero(keyNextAt)
		if limits.KeyWaiting >= explainedWaitingMax {
			limits.KeyWaiting, limits.KeyWaitingOrMore = explainedWaitingMax, true
		}
	}
	return limits, rows.Err()
}

// addLimits adds what holds the task up. It was read by another statement than the task and those
// that are owned, and may have changed meanwhile.
func (e *Explanation) addLimits(limits *TaskLimits) {
	owned := e.Limits
	e.Limits = limits
	if e.Task.State != StateReady {
		e.Limits = nil
	}
	if e.Limits == nil || owned == nil {
		return
	}
	if limits.Limits.Concurrency > 0 {
		e.Limits.Owned = owned.Owned
	}
	if limits.Limits.ConcurrencyPerKey > 0 {
		e.Limits.KeyOwned = owned.KeyOwned
	}
}

func (e Explanation) describeReady(text *strings.Builder) {
	text.WriteString("is ready")
	var reasons []string
	if e.Limits != nil {
		reasons = e.Limits.reasons(e.Task.Action, e.Task.Key)
	}
	switch {
	case e.Task.Action == External && e.Task.Deadline.IsZero():
		text.WriteString(": it waits for an answer from outside")
		return
	case e.Task.Action == External:
		fmt.Fprintf(text, ": it waits for an answer from outside, until %s",
			stamp(e.Task.Deadline))
		return
	case len(reasons) == 0:
		text.WriteString(": it waits for an actor")
		return
	}
	fmt.Fprintf(text, ", but\n  %s", strings.Join(reasons, "\n  "))
}

// reasons are what holds the task up, a sentence each.
func (l *TaskLimits) reasons(action, key string) []string {
	var reasons []string
	say := func(format string, args ...any) {
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if !l.PausedSince.IsZero() {
		say("%q has been paused since %s", action, stamp(l.PausedSince))
	}
	if most := l.Limits.Concurrency; most > 0 && l.InProgress >= most {
		say("%d of %d %q tasks are in progress%s", l.InProgress, most, action,
			ownersOf(l.InProgress, l.Owned))
	}
	if !l.NextAt.IsZero() {
		say("the next token of %q comes at %s", action, stamp(l.NextAt))
	}
	if !l.KeyPausedSince.IsZero() {
		say("key %q has been paused since %s", key, stamp(l.KeyPausedSince))
	}
	if most := l.Limits.ConcurrencyPerKey; most > 0 && l.KeyInProgress >= most {
		say("%d of %d tasks with key %q are in progress%s", l.KeyInProgress, most, key,
			ownersOf(l.KeyInProgress, l.KeyOwned))
	}
	if !l.KeyNextAt.IsZero() {
		say("the next token of key %q comes at %s", key, stamp(l.KeyNextAt))
	}
	if l.WaitsForTurn && l.PausedSince.IsZero() && l.KeyPausedSince.IsZero() {
		say("%s", l.turns(key))
	}
	if len(reasons) > 0 && l.KeyWaiting > 0 && key != "" {
		more := ""
		if l.KeyWaitingOrMore {
			more = " or more"
		}
		say("tasks with key %q that wait: %d%s", key, l.KeyWaiting, more)
	}
	return reasons
}

// ownersOf names the first of some tasks in progress, and who owns them.
func ownersOf(inProgress int, known []TaskInfo) string {
	const most = 10
	var text strings.Builder
	known = known[:min(most, len(known))]
	for _, task := range known {
		fmt.Fprintf(&text, "\n    %q, %s", string(task.ID), owner(task))
	}
	if more := inProgress - len(known); more > 0 && len(known) > 0 {
		fmt.Fprintf(&text, "\n    and %d more", more)
	}
	return text.String()
}

// turns says when it is the turn of the key of the task, which gets tasks of the key, by age,
// though not always this one.
func (l *TaskLimits) turns(key string) string {
	turn := fmt.Sprintf("the turn of key %q", key)
	if key == "" {
		turn = "the turn of tasks without a key"
	}
	switch {
	case l.TurnsAhead == 0:
		return turn + " is next"
	case l.TurnsAhead == 1:
		return turn + " comes after 1 other"
	case l.TurnsAhead >= explainedWaitingMax:
		return fmt.Sprintf("%s comes after %d others or more", turn, l.TurnsAhead)
	}
	return fmt.Sprintf("%s comes after %d others", turn, l.TurnsAhead)
}
