package stint

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// An Explanation is why a task does not run.
type Explanation struct {
	// Task is the task; this and all other tasks are without their bodies and results.
	Task TaskInfo

	// Missing is how many predecessors the task waits for, WaitsFor are up to 100 of these.
	Missing  int
	WaitsFor []TaskInfo

	// BecauseOf are up to 100 of the aborted predecessors that caused the task's abort, if they are
	// still in the store. Others may in turn have caused theirs.
	BecauseOf []TaskInfo

	// Steps are the recorded steps of the task: those that its next try need not do.
	Steps []StepInfo

	// TriesLeft is how often the task can still be handed out, -1 if there is no limit.
	TriesLeft int

	// Limits says how limits and pauses hold the task up; nil unless the task is ready, and its
	// action has limits, or it or one of its keys is paused.
	Limits *TaskLimits

	// AskedAt is when somebody last asked for tasks with this action, accurate to half a minute;
	// zero if nobody has for a week.
	AskedAt time.Time

	Now time.Time // on the database's clock
}

// explainedTasksMax is how many predecessors an explanation names.
const explainedTasksMax = 100

// explainedWordsMax is how many letters of a status the text of an explanation has.
const explainedWordsMax = 200

// explainedStepsMax is how many steps the text of an explanation names.
const explainedStepsMax = 20

// Explain says why a task does not run: what it waits for, until when it is scheduled, who owns it
// until when, which limits and pauses hold it up, how many tries are left, which steps it has
// recorded, when somebody last asked for its action, and which predecessors caused its abort. If
// there is no such task, the error is [ErrTaskNotFound], in a [*TaskError].
func (s *Store) Explain(ctx context.Context, id TaskID) (Explanation, error) {
	explanation, err := s.explain(ctx, id)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	return explanation, nil
}

func (s *Store) explain(ctx context.Context, id TaskID) (Explanation, error) {
	var e Explanation
	if err := checkText("task ID", string(id), idBytesMax); err != nil {
		return e, err
	}
	found := false
	var limits *TaskLimits
	var steps []StepInfo
	err := s.run(ctx, step{
		name: "explain_task", args: []any{string(id), explainedTasksMax},
		read: func(rows pgx.Rows) error {
			var err error
			e, found, err = readExplanation(rows)
			return err
		},
	}, step{
		name: "explain_limits", args: []any{string(id), countedParkedMax, explainedWaitingMax},
		read: func(rows pgx.Rows) error {
			var err error
			limits, err = readTaskLimits(rows)
			return err
		},
	}, stepsOf(id, &steps))
	switch {
	case err != nil:
		return e, err
	case !found:
		return e, &TaskError{IDs: []TaskID{id}, Err: ErrTaskNotFound}
	}
	e.addLimits(limits)
	e.Steps = steps
	return e, nil
}

// readExplanation reads a task, and others because of which it does not run.
func readExplanation(rows pgx.Rows) (e Explanation, found bool, err error) {
	for rows.Next() {
		var missing int
		var askedAt *time.Time
		var now time.Time
		var place int
		info, err := readInfo(rows, &missing, &askedAt, &now, &place)
		if err != nil {
			return e, found, err
		}
		switch {
		case !found:
		case e.Task.State == StateBlocked:
			e.WaitsFor = append(e.WaitsFor, info)
			continue
		case e.Task.State == StateReady:
			if e.Limits == nil {
				e.Limits = &TaskLimits{}
			}
			if place == 1 {
				e.Limits.KeyOwned = append(e.Limits.KeyOwned, info)
			} else {
				e.Limits.Owned = append(e.Limits.Owned, info)
			}
			continue
		default:
			e.BecauseOf = append(e.BecauseOf, info)
			continue
		}
		found = true
		e.Task, e.Missing, e.Now, e.TriesLeft = info, missing, now, -1
		if info.MaxTries > 0 {
			e.TriesLeft = max(info.MaxTries-info.Tries, 0)
		}
		e.AskedAt = orZero(askedAt)
	}
	return e, found, rows.Err()
}

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
			e.Task.AbortCause.sentence())
		if said, _, _ := strings.Cut(e.Task.Status, "\n"); said != "" {
			fmt.Fprintf(&text, ": %.*s", explainedWordsMax, said)
		}
		for _, before := range e.BecauseOf {
			fmt.Fprintf(&text, "\n  %q (aborted: %s)", string(before.ID),
				before.AbortCause.sentence())
		}
		return text.String()
	case StateBlocked:
		text.WriteString("is blocked")
		e.describeMissing(&text)
	case StateScheduled:
		fmt.Fprintf(&text, "is scheduled until %s, in %s", stamp(e.Task.NotBefore),
			rounded(e.Task.NotBefore.Sub(e.Now)))
	case StateInProgress:
		fmt.Fprintf(&text, "is in-progress: %s", owner(e.Task))
	case StateReady:
		e.describeReady(&text)
	}
	e.describeChances(&text)
	return text.String()
}

// sentence says the cause in words.
func (c AbortCause) sentence() string {
	switch c {
	case CauseReturned:
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
	}
	return string(c)
}

func (e Explanation) describeMissing(text *strings.Builder) {
	fmt.Fprintf(text, ": it waits for %d", e.Missing)
	for _, before := range e.WaitsFor {
		fmt.Fprintf(text, "\n  %q (%s)", string(before.ID), before.State)
		if before.State == StateInProgress {
			fmt.Fprintf(text, ", %s", owner(before))
		}
	}
	if more := e.Missing - len(e.WaitsFor); more > 0 {
		fmt.Fprintf(text, "\n  and %d more", more)
	}
	if !e.Task.NotBefore.IsZero() {
		fmt.Fprintf(text, "\nnot before %s", stamp(e.Task.NotBefore))
	}
}

func (e Explanation) describeChances(text *strings.Builder) {
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
	if !e.Task.Deadline.IsZero() {
		fmt.Fprintf(text, "\nits deadline is %s", stamp(e.Task.Deadline))
	}
	switch {
	case e.Task.Action == Spontaneous, e.Task.Action == External: // nobody is given these
	case e.AskedAt.IsZero():
		fmt.Fprintf(text, "\nnobody has asked for %q", e.Task.Action)
	case e.Now.Sub(e.AskedAt) > askedLately:
		fmt.Fprintf(text, "\nnobody has asked for %q since %s", e.Task.Action, stamp(e.AskedAt))
		if e.Task.State == StateReady {
			text.WriteString(": no worker, or none with a free slot, such as one whose handlers " +
				"all wait for other tasks")
		}
	}
}

func owner(info TaskInfo) string {
	if info.LeaseUntil.IsZero() {
		return fmt.Sprintf("%q owns it", string(info.Actor))
	}
	return fmt.Sprintf("%q owns it until %s", string(info.Actor), stamp(info.LeaseUntil))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func rounded(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }
