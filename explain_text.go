package stint

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint/internal/limit"
)

// askedLately is how recently an actor must have asked for an action to be expected to ask again.
const askedLately = 2 * time.Minute

// String returns the explanation in a few lines for people to read.
func (e Explanation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%q ", string(e.Task.ID))
	switch e.Task.State {
	case StateCompleted:
		fmt.Fprintf(&text, "completed at %s", stamp(e.Task.FinishedAt))
		return text.String()
	case StateAborted:
		fmt.Fprintf(&text, "was aborted at %s: %s", stamp(e.Task.FinishedAt),
			e.Task.AbortCause.sentence(e.Task.Action))
		if said, _, _ := strings.Cut(e.Task.Status, "\n"); said != "" {
			fmt.Fprintf(&text, ": %.*s", explainedWordsMax, said)
		}
		e.describeCauses(&text)
		return text.String()
	case StateSkipped:
		fmt.Fprintf(&text, "was skipped at %s: %s", stamp(e.Task.FinishedAt), e.skippedFor())
		e.describeCauses(&text)
		return text.String()
	case StateBlocked:
		text.WriteString("is blocked")
		e.describeMissing(&text)
	case StateScheduled:
		e.describeStart(&text)
	case StateInProgress:
		fmt.Fprintf(&text, "is in-progress: %s", owner(e.Task, e.Now))
		e.describePresence(&text)
	case StateReady:
		e.describeReady(&text)
	}
	if start := e.StartText(); start != "" {
		text.WriteString("\n" + start)
	}
	e.describeChances(&text)
	return text.String()
}

// IsAsked reports whether somebody waits for tasks with the action, or asked for some lately.
func (e Explanation) IsAsked() bool { return e.Now.Sub(e.AskedAt) <= askedLately }

// IsOverdue reports whether the deadline of the task has passed, though nobody has aborted it yet.
func (e Explanation) IsOverdue() bool {
	return !e.Task.final() && !e.Task.Deadline.IsZero() && !e.Task.Deadline.After(e.Now)
}

func (e Explanation) describeStart(text *strings.Builder) {
	if e.Task.NotBefore.After(e.Now) {
		fmt.Fprintf(text, "is scheduled until %s, in %s", stamp(e.Task.NotBefore),
			rounded(e.Task.NotBefore.Sub(e.Now)))
		return
	}
	fmt.Fprintf(text, "is scheduled, and has been due since %s, for %s: nobody has made it ready, "+
		"as those do who ask for tasks or maintain", stamp(e.Task.NotBefore),
		rounded(e.Now.Sub(e.Task.NotBefore)))
}

// StartText says in words when the task starts: "starts in about 4 min: 1,240 before it, 310 a
// minute", or why that is unknown. It is empty if there is no more to say than that a task starts
// when it is scheduled, that nobody asks for its action, or that it is the next and nobody knows
// when.
func (e Explanation) StartText() string {
	s := e.Start
	switch {
	case s == nil, s.Unknown == unasked, s.Before == 0 && s.At.IsZero(),
		!s.OrLater && s.At.Equal(e.Task.NotBefore):
		return ""
	case s.Unknown != "":
		return "when it starts is unknown, because " + s.Unknown
	}
	form, most := "starts in about %s: %s before it", ""
	if s.OrLater {
		form, most = "starts in %s at the earliest: %s before it", " at most"
	}
	before := "none"
	if s.Before > 0 {
		before = map[bool]string{true: "more than "}[s.BeforeOrMore] + grouped(s.Before)
	}
	text := fmt.Sprintf(form, about(s.At.Sub(e.Now)), before)
	switch perHour := s.PerMinute * time.Hour.Minutes(); {
	case s.PerMinute >= 1:
		text += fmt.Sprintf(", %s a minute%s", grouped(int64(math.Round(s.PerMinute))), most)
	case perHour > 0:
		text += fmt.Sprintf(", %.2g an hour%s", perHour, most)
	}
	return text
}

// grouped writes a number in groups of three digits.
func grouped(n int64) string {
	const group = 1000
	if n < group {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/group), n%group)
}

// about is a length of time in its largest unit.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", max(1, int64(math.Round(d.Seconds()))))
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/day.Hours())
}

func (e Explanation) describePresence(text *strings.Builder) {
	switch until := e.Task.LeaseUntil; {
	case e.Presence == PresenceLives, !until.IsZero() && !until.After(e.Now):
	case e.Presence == PresenceGone:
		text.WriteString("\nthe process of its owner is gone: a store that maintains hands it on")
	default:
		text.WriteString("\nnobody watches the process of its owner: if that is gone, " +
			"the task stays with it")
		if !until.IsZero() {
			text.WriteString(" until the lease expires")
		}
	}
}

// skippedFor says in words why the task was skipped.
func (e Explanation) skippedFor() string {
	all := len(e.BecauseOf) > 0
	for _, before := range e.BecauseOf {
		all = all && before.State == StateSkipped
	}
	switch {
	case all:
		return "a predecessor was skipped"
	case e.Task.Action == External && len(e.BecauseOf) == 0:
		return "an answer said so, or its condition cannot be met"
	}
	return "its condition cannot be met"
}

func (e Explanation) describeCauses(text *strings.Builder) {
	for _, before := range e.BecauseOf {
		fmt.Fprintf(text, "\n  %q (%s", string(before.ID), before.State)
		if before.State == StateAborted {
			fmt.Fprintf(text, ": %s", before.AbortCause.sentence(before.Action))
		}
		text.WriteString(")")
	}
}

// sentence says in words why a task with the action was aborted.
func (c AbortCause) sentence(action string) string {
	switch c {
	case CauseReturned:
		if action == External {
			return "an answer said so"
		}
		return "its owner aborted it"
	case CauseTries:
		return "it ran out of tries"
	case CauseDependency:
		return "a predecessor was aborted"
	case CauseCancelled:
		return "it was cancelled"
	case CauseReplaced:
		return "it was replaced"
	case CauseExpired:
		return "its deadline passed"
	case CauseLost:
		return "several of its owners in a row died, or did not extend it"
	}
	return string(c)
}

func (e Explanation) describeMissing(text *strings.Builder) {
	fmt.Fprintf(text, ": it waits for %s%d", map[bool]string{true: "the first of "}[e.AnyOf],
		e.Missing)
	for _, before := range e.WaitsFor {
		fmt.Fprintf(text, "\n  %q (%s)", string(before.ID), before.State)
		if before.State == StateInProgress {
			fmt.Fprintf(text, ", %s", owner(before, e.Now))
		}
	}
	if more := e.Missing - len(e.WaitsFor); more > 0 {
		fmt.Fprintf(text, "\n  and %d more", more)
	}
	if e.Task.NotBefore.After(e.Now) {
		fmt.Fprintf(text, "\nnot before %s", stamp(e.Task.NotBefore))
	}
}

func (e Explanation) describeChances(text *strings.Builder) {
	if e.Copy != "" {
		fmt.Fprintf(text, "\nnothing is handed out here until somebody runs stint adopt, "+
			"since the database is a copy: %s", e.Copy)
	}
	for i, recorded := range e.Steps {
		if i == explainedStepsMax {
			fmt.Fprintf(text, "\nand %d more steps are recorded", len(e.Steps)-i)
			break
		}
		fmt.Fprintf(text, "\nstep %q was recorded at %s", recorded.Name,
			stamp(recorded.RecordedAt))
	}
	if e.TriesLeft >= 0 {
		fmt.Fprintf(text, "\ntries left: %d of %d", e.TriesLeft, e.Task.MaxTries)
	}
	switch {
	case e.IsOverdue() && e.Task.State == StateReady: // which was said first
	case e.IsOverdue():
		fmt.Fprintf(text, "\nits deadline passed at %s: a store that maintains aborts it",
			stamp(e.Task.Deadline))
	case !e.Task.Deadline.IsZero():
		fmt.Fprintf(text, "\nits deadline is %s", stamp(e.Task.Deadline))
	}
	e.describeSilence(text)
}

// describeSilence says that nobody asks for the action, if so. In a copy who asks is refused.
func (e Explanation) describeSilence(text *strings.Builder) {
	since := ""
	if !e.AskedAt.IsZero() {
		since = " since " + stamp(e.AskedAt)
	}
	switch {
	case e.Task.Action == Spontaneous, e.Task.Action == External: // nobody is given these
	case e.Copy != "", e.IsAsked(), e.Actors > 0 && e.Task.State != StateReady:
	case e.Actors > 0:
		fmt.Fprintf(text, "\nactors that are registered for %q: %d, but none has asked for more"+
			"%s: no slot is free, such as if all their handlers wait for other tasks",
			e.Task.Action, e.Actors, since)
	case since == "":
		fmt.Fprintf(text, "\nnobody asks for %q", e.Task.Action)
	default:
		fmt.Fprintf(text, "\nnobody has asked for %q%s", e.Task.Action, since)
		if e.Task.State == StateReady {
			text.WriteString(": no worker, or none with a free slot, such as one whose handlers " +
				"all wait for other tasks")
		}
	}
}

// owner says who owns a task, or why nobody does.
func owner(info TaskInfo, now time.Time) string {
	switch {
	case info.State == StateScheduled:
		return "which is scheduled until " + stamp(info.NotBefore)
	case info.State != StateInProgress:
		return "which is " + string(info.State)
	case info.LeaseUntil.IsZero():
		return fmt.Sprintf("%q owns it", string(info.Actor))
	case !info.LeaseUntil.After(now):
		return fmt.Sprintf("%q owned it until %s, and nobody has taken it back", string(info.Actor),
			stamp(info.LeaseUntil))
	}
	return fmt.Sprintf("%q owns it until %s", string(info.Actor), stamp(info.LeaseUntil))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func rounded(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

func (e Explanation) describeReady(text *strings.Builder) {
	text.WriteString("is ready")
	var held limit.Held
	if e.Limits != nil {
		held = e.Limits.held(e.Task.Action, e.Task.Key, e.Now)
	}
	switch reasons := held.Reasons(); {
	case e.IsOverdue():
		fmt.Fprintf(text, ", but its deadline passed at %s: it is fetched no more, and a store "+
			"that maintains aborts it", stamp(e.Task.Deadline))
	case e.Task.Action == External && e.Task.Deadline.IsZero():
		text.WriteString(": it waits for an answer from outside")
	case e.Task.Action == External:
		fmt.Fprintf(text, ": it waits for an answer from outside, until %s",
			stamp(e.Task.Deadline))
	case len(reasons) > 0:
		fmt.Fprintf(text, ", but\n  %s", strings.Join(reasons, "\n  "))
	case e.Limits != nil && e.Limits.Hidden:
		text.WriteString(": it waits for an actor, or for other tasks of its action, " +
			"which you may not see")
	case e.Limits != nil && e.Limits.Parked:
		text.WriteString(", but parked, though nothing holds it up any more: a store that " +
			"maintains puts it back into the queue")
	default:
		text.WriteString(": it waits for an actor")
	}
	text.WriteString(held.Left())
}

// held is what limits say of a task, for the words.
func (l *TaskLimits) held(action, key string, now time.Time) limit.Held {
	held := limit.Held{
		Action: action, Key: key, PausedSince: l.PausedSince, KeyPausedSince: l.KeyPausedSince,
		ByCost: l.Limits.ByCost, NextAt: l.NextAt, KeyNextAt: l.KeyNextAt, InProgress: l.InProgress,
		Most: l.Limits.Concurrency, Owners: ownersOf(l.InProgress, l.Owned, now),
		KeyInProgress: l.KeyInProgress, KeyMost: l.Limits.ConcurrencyPerKey,
		KeyOwners:  ownersOf(l.KeyInProgress, l.KeyOwned, now),
		KeyWaiting: l.KeyWaiting, KeyWaitingOrMore: l.KeyWaitingOrMore,
		WaitsForTurn: l.WaitsForTurn, TurnsAhead: l.TurnsAhead, TurnsMax: explainedWaitingMax,
		Hidden: l.Hidden, Rated: l.Limits.Rate.Tasks > 0, KeyRated: l.Limits.RatePerKey.Tasks > 0,
		Tokens: l.Tokens, KeyTokens: l.KeyTokens,
	}
	if l.Limits.Ordered {
		held.Holder = ownersOf(len(l.KeyOwned), l.KeyOwned, now)
	}
	return held
}

// ownersOf names the first of some tasks in progress, and who owns them.
func ownersOf(inProgress int, known []TaskInfo, now time.Time) string {
	const most = 10
	var text strings.Builder
	known = known[:min(most, len(known))]
	for _, task := range known {
		fmt.Fprintf(&text, "\n    %q, %s", string(task.ID), owner(task, now))
	}
	if more := inProgress - len(known); more > 0 && len(known) > 0 {
		fmt.Fprintf(&text, "\n    and %d more", more)
	}
	return text.String()
}
